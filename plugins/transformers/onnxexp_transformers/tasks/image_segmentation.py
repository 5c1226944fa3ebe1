"""Image segmentation: one graph, or an encoder of images and a decoder of masks for prompts.

A model with prompts, as SAM, has the parts "vision", from ``pixel_values`` to ``image_embeddings``, and "masks", from these and
points to masks: an image is encoded once, for any number of prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp_transformers.tasks import Part, one_graph
from onnxexp_transformers.tasks.example_inputs import parameters_of

__all__ = ["parts"]


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the part "model", or the parts "vision" and "masks".

    Raises OptionError as `one_graph.parts` does.
    """
    if not {"image_embeddings", "input_points"} <= parameters_of(model.forward).keys():
        return one_graph.parts(model, **sizes)
    raise NotImplementedError
