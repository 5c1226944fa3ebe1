"""Feature extraction: the hidden states of a model without a head.

An encoder-decoder also takes ``decoder_input_ids``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import sizes_of
from onnxexp_transformers.tasks.one_graph import whole_model


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the model as the only part, "model", with its hidden states.

    Raises OptionError as `one_graph.parts` does.
    """
    return [whole_model(model, sizes_of(sizes), additional=True)]
