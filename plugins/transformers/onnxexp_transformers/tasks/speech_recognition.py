"""Speech recognition: a model with CTC as one graph, an encoder-decoder as two.

A model with CTC returns ``logits`` of each frame. See `encoder_decoder` for the other kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp_transformers.tasks import Part, encoder_decoder, one_graph


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the part "model", or the parts "encoder" and "decoder".

    Raises OptionError as `one_graph.parts` and `encoder_decoder.parts` do.
    """
    if model.config.is_encoder_decoder:
        return encoder_decoder.parts(model, **sizes)
    return one_graph.parts(model, **sizes)
