"""Image segmentation: one graph, or two for models with prompts.

A model with prompts, as SAM, has two parts. "vision" computes ``image_embeddings`` of ``pixel_values``, once for all prompts
of an image. "masks" takes them with ``input_points`` [images, prompts, points, 2] and ``input_labels`` [images, prompts,
points], and returns ``pred_masks`` and ``iou_scores`` of each prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.tasks import Part, one_graph
from onnxexp_transformers.tasks.example_inputs import Sizes, example_inputs, parameters_of, sizes_of, waves
from onnxexp_transformers.tasks.probes import keep_free_axes

_PROMPTS, _POINTS = 3, 4  # sizes of the example


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the part "model", or the parts "vision" and "masks".

    Raises OptionError as `one_graph.parts` does.
    """
    if not {"image_embeddings", "input_points"} <= parameters_of(model.forward).keys():
        return one_graph.parts(model, **sizes)
    vision = _vision(model, sizes_of(sizes))
    with torch.no_grad():
        embeddings = vision.module(**vision.inputs)["image_embeddings"]
    return [vision, _masks(model, embeddings, vision.inputs["pixel_values"])]


def _vision(model: Any, sizes: Sizes) -> Part:
    example = example_inputs(model, ["pixel_values"], sizes)

    def forward(*, pixel_values: torch.Tensor) -> dict[str, Any]:
        return {"image_embeddings": model.get_image_embeddings(pixel_values)}

    keep_free_axes(forward, example)
    example.axes["pixel_values"][0] = "images"
    return Part("vision", AdaptedModule(model, forward, list(example.inputs)), example.inputs, example.axes)


def _masks(model: Any, embeddings: Any, images: torch.Tensor) -> Part:
    count, _, height, width = images.shape
    points = (waves((count, _PROMPTS, _POINTS, 2)) + 1) / 2 * torch.tensor([width, height])
    labels = torch.arange(count * _PROMPTS * _POINTS).reshape(count, _PROMPTS, _POINTS) % 2
    inputs = {"input_points": points.to(model.dtype), "input_labels": labels, "image_embeddings": embeddings}
    axes = {
        "input_points": {0: "images", 1: "prompts", 2: "points"},
        "input_labels": {0: "images", 1: "prompts", 2: "points"},
        "image_embeddings": pytree.tree_map(lambda _: {0: "images"}, embeddings),
    }

    def forward(**inputs: Any) -> dict[str, Any]:
        result = model(**inputs, return_dict=True)
        return {"pred_masks": result.pred_masks, "iou_scores": result.iou_scores}

    return Part("masks", AdaptedModule(model, forward, list(inputs)), inputs, axes)
