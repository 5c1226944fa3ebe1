"""Zero-shot classification of images: the similarity of each image and each text.

The graph takes texts and images, as many of each as there are, and returns ``logits_per_image`` [images, texts], its transpose
``logits_per_text``, and the embeddings of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import sizes_of
from onnxexp_transformers.tasks.one_graph import whole_model

__all__ = ["parts"]


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the model as the only part, "model".

    Raises OptionError as `one_graph.parts` does.
    """
    part = whole_model(model, sizes_of(sizes))
    for name, axes in part.dynamic_shapes.items():
        axes[0] = "images" if name.startswith("pixel") else "texts"
    return [part]
