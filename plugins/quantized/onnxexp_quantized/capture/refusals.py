"""Quantized models that no capture can take, each with the fix."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import CaptureError

_OBSERVERS = ("torch.ao.quantization.observer", "torchao.quantization.pt2e.observer")
"""The modules of the classes that observe ranges."""
_SHOWN = 5
"""How many observers are listed in one error."""


def check_model(model: Any, capture: str, quantized: bool) -> None:
    """Refuse models that are prepared but not converted, and scripts.

    Raises CaptureError.
    """
    if quantized and capture == "script":
        raise CaptureError(
            "capture='script' takes no quantized model, since torch.jit.script keeps its weights packed; "
            "to fix this, use capture='auto', "
            "'export' or 'trace'"
        )
    if isinstance(model, torch.nn.Module):
        _check_observers(model)


def _check_observers(model: torch.nn.Module) -> None:
    """Raise CaptureError for observers outside of fake quantizers."""
    if not any(map(_is_observer, {type(module) for module in model.modules()})):
        return
    inside = {id(part) for module in model.modules() if _is_fake_quantizer(module) for part in module.modules()}
    found = [name for name, module in model.named_modules() if _is_observer(type(module)) and id(module) not in inside]
    if found:
        left = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise CaptureError(
            f"the model is prepared for quantization and not converted: {', '.join(found[:_SHOWN])}{left} observe the ranges of "
            "tensors; to fix this, run it on typical inputs, and convert it: torch.ao.quantization.convert(model), "
            "quantize_fx.convert_fx(model), or convert_pt2e(model)"
        )


def _is_observer(kind: type) -> bool:
    return any(each.__module__.startswith(_OBSERVERS) for each in kind.__mro__)


def _is_fake_quantizer(module: torch.nn.Module) -> bool:
    return any(each.__name__ == "FakeQuantizeBase" for each in type(module).__mro__)
