"""Helpers of torch.onnx's interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp import warn
from onnxexp_torch_onnx.enums import TensorProtoDataType
from onnxexp_torch_onnx.symbolic_helper.building import _constant, _slice_helper
from onnxexp_torch_onnx.symbolic_helper.reading import _is_none, _is_packed_list, _is_value, _maybe_get_const, _unpack_list
from onnxexp_torch_onnx.symbolic_helper.types import _get_tensor_rank
from onnxexp_torch_onnx.torch_op import torch_op

__all__ = [
    "_get_interpolate_attributes",
    "_interpolate_get_scales",
    "_interpolate_get_scales_if_available",
    "_interpolate_helper",
    "_interpolate_size_to_scales",
    "_interpolate_warning",
]


def _interpolate_warning(interpolate_mode: str) -> None:
    warn(f"ONNX's resizing computes as torch's does from opset 11 on ({interpolate_mode})")


def _interpolate_size_to_scales(g: Any, input: Any, output_size: Any, dim: int) -> Any:
    """Compute the scales of all axes from the sizes of the last ones."""
    size = _maybe_get_const(output_size, "is") if _is_value(output_size) else output_size
    if _is_value(size):
        wanted = g.op("Cast", size, to_i=TensorProtoDataType.FLOAT)
    else:
        wanted = _constant(g, size, torch.float32)
    before = g.op("Cast", _slice_helper(g, g.op("Shape", input), [0], [2], [dim]), to_i=TensorProtoDataType.FLOAT)
    return g.op("Concat", _constant(g, [1.0, 1.0], torch.float32), g.op("Div", wanted, before), axis_i=0)


def _interpolate_get_scales_if_available(g: Any, scales: Any) -> Any:
    """Compute the scales of all axes from those of the last ones, or return None."""
    if not scales or _is_none(scales[0]):
        return None
    known = _maybe_get_const(scales[0], "fs")
    return _constant(g, [1.0, 1.0, *([known] if isinstance(known, float) else known)], torch.float32)


def _get_interpolate_attributes(g: Any, mode: str, args: Any) -> tuple[Any, Any]:
    """Read (scales, align_corners) from a symbolic's last arguments."""
    align, scales = (None, args) if mode == "nearest" else (args[0], args[1:])
    return _interpolate_get_scales_if_available(g, scales), align


def _interpolate_get_scales(g: Any, scale_factor: Any, dim: int) -> Any:
    """Compute the scales of all axes from one factor, or a list of factors."""
    ones = _constant(g, [1.0, 1.0], torch.float32)
    rank = _get_tensor_rank(scale_factor) if _is_value(scale_factor) and not _is_packed_list(scale_factor) else None
    if _is_packed_list(scale_factor):
        factors = [g.op("Reshape", each, _constant(g, [1])) for each in _unpack_list(scale_factor)]
    elif rank == 0:
        factors = [g.op("Reshape", scale_factor, _constant(g, [1]))] * (dim - 2)
    else:
        factors = [scale_factor]
    return g.op("Concat", ones, *(g.op("Cast", each, to_i=TensorProtoDataType.FLOAT) for each in factors), axis_i=0)


def _interpolate_helper(name: str, dim: int, interpolate_mode: str) -> Callable[..., Any]:
    """Return the symbolic of ``aten::{name}``."""

    def symbolic(g: Any, input: Any, output_size: Any, *args: Any) -> Any:
        return torch_op(g, name, input, output_size, *args)

    symbolic.__name__ = name
    return symbolic
