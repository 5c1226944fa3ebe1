"""Interpolation with a computed scale factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy  # type: ignore[import-untyped]
import torch
from torch import Tensor
from torch.nn import functional

from onnxexp_aten.capture.computed_numbers.table import Compositions, Number

table = Compositions()
_SAMPLES = range(1, 65)
"""Sizes at which a factor is computed to find out whether it is exact."""


@table("scale_factor", (functional, "interpolate"))
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Number = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resize one axis after the other."""
    axes = range(2, input.dim())
    factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(axes)
    if size is not None or antialias or len(factors) != len(axes) or not all(map(_is_exact, factors)):
        return NotImplemented
    if recompute_scale_factor and torch._C._is_tracing():  # torch's own function computes these sizes with tensors
        return NotImplemented
    sizes = [math.floor(input.shape[axis] * factor) for axis, factor in zip(axes, factors, strict=True)]
    if recompute_scale_factor or align_corners or mode == "area":
        return functional.interpolate(input, sizes, mode=mode, align_corners=align_corners)
    x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    for axis, factor, length in zip(axes, factors, sizes, strict=True):
        x = _RESIZE[mode](x, axis, 1 / factor, length)
    return x.to(input.dtype)


def _is_exact(factor: Number) -> bool:
    """Return whether float32, the dtype at run time, represents a factor exactly.

    Otherwise, the sizes and the nearest elements may differ from eager.
    """
    if not isinstance(factor, torch.SymFloat):
        return True
    expr = factor.node.expr
    values = (float(expr.xreplace(dict.fromkeys(expr.free_symbols, sympy.Integer(size)))) for size in _SAMPLES)
    return all(value == float(np.float32(value)) for value in values)


def _nearest(x: Tensor, axis: int, step: Number, length: Any, offset: float = 0.0) -> Tensor:
    """Select the element before each place."""
    return _at(x, axis, ((_places(x, length) + offset) * step).floor())


def _linear(x: Tensor, axis: int, step: Number, length: Any) -> Tensor:
    """Mix the two elements around each place."""
    place = ((_places(x, length) + 0.5) * step - 0.5).clamp_min(0)
    first = place.floor()
    share = _along(x, axis, place - first)
    return _at(x, axis, first) * (1 - share) + _at(x, axis, first + 1) * share


def _cubic(x: Tensor, axis: int, step: Number, length: Any) -> Tensor:
    """Mix four elements around each place, by torch's cubic polynomials."""
    place = (_places(x, length) + 0.5) * step - 0.5
    first = place.floor()
    share = place - first
    far, near, sharpness = [share + 1, 2 - share], [share, 1 - share], -0.75
    outer = [((distance - 5) * distance + 8) * distance * sharpness - 4 * sharpness for distance in far]
    inner = [((sharpness + 2) * distance - (sharpness + 3)) * distance * distance + 1 for distance in near]
    weights = (outer[0], *inner, outer[1])
    mixed = [_at(x, axis, first + offset) * _along(x, axis, weight) for offset, weight in enumerate(weights, start=-1)]
    return mixed[0] + mixed[1] + mixed[2] + mixed[3]


def _places(x: Tensor, length: Any) -> Tensor:
    return torch.arange(length, device=x.device).to(x.dtype)


def _at(x: Tensor, axis: int, places: Tensor) -> Tensor:
    """Select elements, and the first or last one beyond the ends."""
    last = x.shape[axis] - 1
    return x.index_select(axis, places.to(torch.int64).clamp_min(0).clamp_max(last))


def _along(x: Tensor, axis: int, weights: Tensor) -> Tensor:
    return weights.reshape(-1, *[1] * (x.dim() - axis - 1))


def _nearest_exact(x: Tensor, axis: int, step: Number, length: Any) -> Tensor:
    """Select the element nearest to the centre of each place."""
    return _nearest(x, axis, step, length, 0.5)


_RESIZE: dict[str, Callable[[Tensor, int, Number, Any], Tensor]] = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _linear),
    "bicubic": _cubic,
}
