"""torchvision's detection models with random weights that are well conditioned.

With plain random weights, activations grow from layer to layer, and all scores are equal. Rounding then decides which boxes are
kept, and no two runtimes agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import detection
from torchvision.ops.misc import FrozenBatchNorm2d

_NONE: dict[str, Any] = {"weights": None, "weights_backbone": None}
_SMALL: dict[str, Any] = _NONE | {"min_size": 160, "max_size": 260}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "faster-rcnn": lambda: detection.fasterrcnn_resnet50_fpn(**_SMALL),
    "faster-rcnn-mobilenet": lambda: detection.fasterrcnn_mobilenet_v3_large_320_fpn(**_NONE),
    "mask-rcnn": lambda: detection.maskrcnn_resnet50_fpn(**_SMALL),
    "retinanet": lambda: detection.retinanet_resnet50_fpn(**_SMALL),
    "ssdlite": lambda: detection.ssdlite320_mobilenet_v3_large(**_NONE),
    "fcos": lambda: detection.fcos_resnet50_fpn(**_SMALL),
    "keypoint-rcnn": lambda: detection.keypointrcnn_resnet50_fpn(**_SMALL),
}
"""The seven models, which resize images to about 160 pixels where they may."""
_SCORES = ("rpn.head.cls_logits", "box_predictor.cls_score", "head.cls_logits", "head.classification_head.cls_logits")
_BOXES = ("rpn.head.bbox_pred", "box_predictor.bbox_pred", "regression_head.bbox_reg")


def made(name: str) -> nn.Module:
    """Build a model whose layers have outputs of mean 0 and variance 1."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad(), _conditioned(model):
        model([picture(160, 200, 0)])
    return model


def picture(height: int, width: int, seed: int) -> Tensor:
    """Draw a smooth random picture.

    torch and ONNX Runtime differ in the rounding of the places at which they interpolate.
    """
    noise = torch.rand(1, 3, 6, 8, generator=torch.Generator().manual_seed(seed))
    return nn.functional.interpolate(noise, (height, width), mode="bicubic")[0].clamp(0, 1)


def with_threshold(model: nn.Module, score: float) -> nn.Module:
    """Set the score above which a model returns a box."""
    (model.roi_heads if hasattr(model, "roi_heads") else model).score_thresh = score
    return model


def matched(expected: dict[str, Tensor], actual: dict[str, Tensor]) -> float:
    """Return the share of the expected boxes that are among the actual ones.

    A pair of boxes has the same label, places within 0.1 pixels and scores within 0.001. The order of nearly equal scores is not
    compared, nor which of them comes last.
    """
    if not len(expected["boxes"]):
        return float(not len(actual["boxes"]))
    near = (expected["boxes"][:, None] - actual["boxes"][None]).abs().amax(-1) < 0.1
    same = expected["labels"][:, None] == actual["labels"][None]
    scored = (expected["scores"][:, None] - actual["scores"][None]).abs() < 1e-3
    return float((near & same & scored).any(1).float().mean())


@contextlib.contextmanager
def _conditioned(model: nn.Module) -> Iterator[None]:
    """Fit normalization layers and the last layers of heads to a call's activations."""
    handles = []
    for name, layer in model.named_modules():
        if isinstance(layer, (FrozenBatchNorm2d, nn.BatchNorm2d)):
            handles.append(layer.register_forward_pre_hook(_fit_normalization))
        elif isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            if name.endswith(_SCORES) or "classification_head.module_list" in name:
                handles.append(layer.register_forward_hook(_scaled_to(1.5)))
            elif name.endswith(_BOXES) or "regression_head.module_list" in name:
                handles.append(layer.register_forward_hook(_scaled_to(0.3)))
            elif "backbone.fpn" in name:
                handles.append(layer.register_forward_hook(_scaled_to(1.0)))
    yield
    for handle in handles:
        handle.remove()


def _fit_normalization(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    (x,) = inputs
    layer.running_mean.copy_(x.mean((0, 2, 3)))
    layer.running_var.copy_(x.var((0, 2, 3), correction=0) + 1e-4)


def _scaled_to(deviation: float) -> Callable[..., Tensor | None]:
    """Return a hook that scales a layer at its first call.

    The outputs of the layer then have the standard deviation `deviation`.
    """
    seen: set[nn.Module] = set()

    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if layer in seen or output.numel() < 8:
            return None
        seen.add(layer)
        factor = deviation / (output.std() + 1e-6)  # a bias is the same everywhere
        layer.weight.mul_(factor)  # type: ignore[operator]
        torch.nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        return output * factor

    return hook
