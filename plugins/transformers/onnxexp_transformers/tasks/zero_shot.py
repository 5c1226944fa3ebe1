"""Zero-shot classification of images: the similarity of each image and each text.

The graph takes any number of texts and of images, and returns ``logits_per_image`` [images, texts], its transpose
``logits_per_text``, and the embeddings of both.

With `towers`, there are two graphs instead, for programs that compute the embeddings of many images once: "text" returns
``text_embeds``, "vision" returns ``image_embeds``, the same numbers as the whole model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import sizes_of
from onnxexp_transformers.tasks.one_graph import whole_model
from onnxexp_transformers.tasks.probes import refusing_misfits


def parts(model: Any, *, towers: bool = False, **sizes: int) -> Sequence[Part]:
    """Return the part "model", or the towers as the parts "text" and "vision".

    Args:
        model: A model of transformers for images and texts.
        towers: Whether to return the towers.
        sizes: Sizes of the example; see `Sizes`.

    Raises OptionError as `one_graph.parts` does, and for a model whose embeddings are no function of one tower.
    """
    whole = whole_model(model, sizes_of(sizes))
    for name, axes in whole.dynamic_shapes.items():
        axes[0] = "images" if name.startswith("pixel") else "texts"
    if not towers:
        return [whole]
    with torch.no_grad(), refusing_misfits(model, "a text and a vision tower"):
        expected = whole.module(**whole.inputs)
        return [
            _tower("text", model, model.get_text_features, whole, expected["text_embeds"]),
            _tower("vision", model, model.get_image_features, whole, expected["image_embeds"]),
        ]


def _tower(name: str, model: Any, features: Callable[..., Any], whole: Part, expected: torch.Tensor) -> Part:
    """Return the part that computes the whole model's embeddings.

    The embeddings are divided by their norm if the model does so.
    """
    inputs = {key: value for key, value in whole.inputs.items() if key.startswith("pixel") == (name == "vision")}
    axes = {key: whole.dynamic_shapes[key] for key in inputs}
    output = "text_embeds" if name == "text" else "image_embeds"

    def plain(**inputs: Any) -> dict[str, Any]:
        return {output: features(**inputs, return_dict=True).pooler_output}

    def normalized(**inputs: Any) -> dict[str, Any]:
        return {output: torch.nn.functional.normalize(plain(**inputs)[output], dim=-1)}

    for forward in (normalized, plain):
        if torch.allclose(forward(**inputs)[output].float(), expected.float(), rtol=1e-2, atol=1e-4):
            return Part(name, AdaptedModule(model, forward, list(inputs)), inputs, axes)
    raise OptionError(
        f"{type(model).__name__}: the {name} tower alone computes other {output} than the model; "
        "to fix this, export it without towers"
    )
