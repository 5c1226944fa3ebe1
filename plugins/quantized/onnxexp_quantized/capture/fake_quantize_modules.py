"""Capture quantization-aware training with its present parameters.

A fake-quantize module reads its switches from buffers, and writes scale and zero point at each call. During a capture, a function
with the switches and parameters as constants replaces its `forward`. A convolution or linear layer that is fused with a batch
norm gets the weight and bias that torch's conversion would compute, so that its result is quantized directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import CaptureError, warn
from onnxexp.frontends import replace_attributes
from onnxexp_quantized.capture.replaced_functions import Functions
from onnxexp_quantized.capture.run_time_operators import fake_quantize

_SHOWN = 5


@contextlib.contextmanager
def constant_fake_quantization(model: torch.nn.Module) -> Iterator[None]:
    """Fix the parameters of fake quantization while the context lasts.

    Warns of modules that have never seen data. Raises CaptureError with the names of all modules that still observe.
    """
    named = dict(model.named_modules())
    if not any(_derives(kind, "torch.ao") for kind in set(map(type, named.values()))):
        yield
        return
    found = {name: module for name, module in named.items() if _is_fake_quantize(module)}
    _refuse(
        [name for name, module in found.items() if _observes(module)],
        "still observe: their scales change with each call; "
        "to fix this, call model.apply(torch.ao.quantization.disable_observer)",
    )
    unseen = {name: module for name, module in found.items() if _quantizes(module) and not _is_calibrated(module)}
    _refuse(
        [name for name, module in unseen.items() if module.is_per_channel and not isinstance(module, _classes()[1])],
        "have never seen data, so that eager fails too; to fix this, run the model on data before you disable the observers",
    )
    if unseen:
        warn(
            f"modules of quantization-aware training have never seen data ({_listed(list(unseen))}): they quantize with the "
            "scale that torch starts with; to fix this, run the model on data before you disable the observers"
        )
    patches: list[tuple[Any, str, Any]] = [(module, "forward", _forward(module)) for module in found.values()]
    fused = [module for module in named.values() if _is_fused(module)]
    patches += [(module, "forward", _fused_forward(module)) for module in fused]
    patches += [(module, "_buffers", {**module._buffers, **_fused_buffers(module)}) for module in fused]
    with replace_attributes(patches):
        yield


def _per_channel(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> torch.Tensor:
    """Replace the torch function by an operator that torch.export takes."""
    return fake_quantize(input, scale, zero_point, quant_min, quant_max, axis)


def _per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> torch.Tensor:
    """Replace the torch function by an operator that torch.export takes."""
    return fake_quantize(input, scale, zero_point, quant_min, quant_max)


FUNCTIONS: Functions = [
    (torch, "fake_quantize_per_tensor_affine", _per_tensor),
    (torch, "fake_quantize_per_channel_affine", _per_channel),
]
"""The operators in place of torch's functions of fake quantization."""


def _classes() -> tuple[Any, ...]:
    """Return torch's classes: fixed or observed scales, fused ones, learned ones."""
    from torch.ao.quantization import FakeQuantize, FusedMovingAvgObsFakeQuantize
    from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

    return FakeQuantize, FusedMovingAvgObsFakeQuantize, _LearnableFakeQuantize


def _is_fake_quantize(module: torch.nn.Module) -> bool:
    """Return whether a module fake-quantizes by the `forward` of a class of torch."""
    return _derives(type(module), "torch.ao.quantization") and any(
        isinstance(module, each) and type(module).forward is each.forward for each in _classes()
    )


def _is_fused(module: torch.nn.Module) -> bool:
    """Return whether a layer has a batch norm in it, for inference."""
    if not _derives(type(module), "torch.ao.nn.intrinsic"):
        return False
    from torch.ao.nn.intrinsic import qat

    fused = (qat.ConvBn1d, qat.ConvBn2d, qat.ConvBn3d, qat.LinearBn1d)
    return isinstance(module, fused) and not module.training and not module.bn.training


def _derives(kind: type, package: str) -> bool:
    """Return whether a class of a package is a base of a module's class.

    Comparing names imports no package.
    """
    return any(each.__module__.startswith(package) for each in kind.__mro__)


def _refuse(names: list[str], problem: str) -> None:
    if names:
        raise CaptureError(f"modules of quantization-aware training {problem} ({_listed(names)})")


def _listed(names: list[str]) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _observes(module: Any) -> bool:
    return _is_on(module.static_enabled if isinstance(module, _classes()[2]) else module.observer_enabled)


def _quantizes(module: Any) -> bool:
    return _is_on(module.fake_quant_enabled)


def _is_on(switch: torch.Tensor) -> bool:
    return bool(switch[0] == 1)


def _is_calibrated(module: Any) -> bool:
    """Return whether a scale is set or computed; fixed and learned ones always are."""
    observer = module.activation_post_process
    limits = [dict(observer.named_buffers()).get(name) for name in ("min_val", "max_val")]
    if isinstance(module, _classes()[2]) or limits[0] is None or limits[1] is None or has_seen_data(limits[0], limits[1]):
        return True
    untouched = torch.equal(module.scale, torch.ones_like(module.scale)) and not module.zero_point.any()
    return not untouched and not isinstance(module, _classes()[1])


def _forward(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that fake-quantizes with the module's present parameters."""
    if not _quantizes(module):
        return lambda X: X
    scale, zero_point, (lowest, highest), per_channel = _parameters(module)
    axis = module.ch_axis if per_channel else None
    return lambda X: fake_quantize(X, scale, zero_point, lowest, highest, axis)


def _parameters(module: Any) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int], bool]:
    """Return scale, zero point, limits of the integers, and whether by channel."""
    observer, (_, fused, learnable) = module.activation_post_process, _classes()
    scale, zero_point = module.scale.detach(), module.zero_point.detach()
    if isinstance(module, learnable):
        limits = (module.quant_min, module.quant_max)
        symmetric = module.qscheme in (torch.per_channel_symmetric, torch.per_tensor_symmetric)
        whole = torch.zeros_like(zero_point) if symmetric else zero_point.round().clamp(*limits)
        per_channel = module.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine)
        return scale.clamp(min=module.eps.item()), whole.to(torch.int32), limits, per_channel
    limits = (observer.quant_min, observer.quant_max)
    if isinstance(module, fused):
        seen = (observer.min_val, observer.max_val)
        if not has_seen_data(*seen):  # the kernel has one scale, for all channels
            empty = torch.tensor(torch.inf), torch.tensor(-torch.inf)
            return *fused_parameters(*empty, *limits, 0, False, module.is_symmetric_quant), limits, False
        scale, zero_point = fused_parameters(*seen, *limits, module.ch_axis, module.is_per_channel, module.is_symmetric_quant)
    return scale, zero_point, limits, bool(module.is_per_channel)


def _fused_forward(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the layer with the batch norm in its weight and bias."""
    from torch.ao.nn.intrinsic import qat

    rectified = isinstance(module, (qat.ConvBnReLU1d, qat.ConvBnReLU2d, qat.ConvBnReLU3d))

    def forward(input: torch.Tensor) -> torch.Tensor:
        weight, bias = module.weight_fake_quant(module._buffers["fused_weight"]), module._buffers["fused_bias"]
        if isinstance(module, qat.LinearBn1d):
            return torch.nn.functional.linear(input, weight, bias)
        result: torch.Tensor = module._conv_forward(input, weight, bias)
        return torch.relu(result) if rectified else result

    return forward


def _fused_buffers(module: Any) -> dict[str, torch.Tensor]:
    """Return the weight and the bias that do what the layer and its batch norm do."""
    norm = module.bn
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = module.weight * factor.reshape([-1, *[1] * (module.weight.dim() - 1)])
    shift = norm.running_mean if module.bias is None else norm.running_mean - module.bias
    return {"fused_weight": weight.detach(), "fused_bias": (norm.bias - shift * factor).detach()}


def has_seen_data(lowest: torch.Tensor, highest: torch.Tensor) -> bool:
    """Return whether an observer's range is finite and not empty, as after data."""
    return bool(lowest.numel() and torch.isfinite(lowest).all() and torch.isfinite(highest).all())


def fused_parameters(
    lowest: torch.Tensor, highest: torch.Tensor, quant_min: int, quant_max: int, axis: int, per_row: bool, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the parameters that torch.fused_moving_avg_obs_fake_quant computes."""
    channels = lowest.numel() if per_row else 1
    scale, zero_point = torch.ones(channels), torch.zeros(channels, dtype=torch.int32)
    off, on = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    x = torch.zeros([1] * axis + [channels, 1])  # the kernel takes two axes at least
    limits = lowest.detach().cpu().clone(), highest.detach().cpu().clone()
    torch.ops.aten.fused_moving_avg_obs_fake_quant(
        x, off, on, *limits, scale, zero_point, 0.01, quant_min, quant_max, axis, per_row, symmetric
    )
    return scale, zero_point
