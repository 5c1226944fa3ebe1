"""Quantized tensors: tuples of (tensor, scale, zero point), maybe with an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp_torch_onnx.enums import TensorProtoDataType
from onnxexp_torch_onnx.scalar_type import JitScalarType
from onnxexp_torch_onnx.symbolic_helper.reading import (
    _is_none,
    _is_packed_list,
    _is_tuple_construct,
    _is_value,
    _unpack_list,
    _unpack_quantized_tensor,
)
from onnxexp_torch_onnx.symbolic_helper.types import _maybe_cast_to_type

__all__ = ["dequantize_helper", "quantize_helper", "quantized_args", "requantize_bias_helper"]

_QUANTIZED = (JitScalarType.UINT8, JitScalarType.INT8, JitScalarType.INT)


def dequantize_helper(g: Any, qtensor: Any, qdtype: Any = None) -> tuple[Any, Any, Any, Any]:
    """Dequantize to (tensor in float32, scale, zero point, axis or None)."""
    tensor, scale, zero_point, *axis = _unpack_quantized_tensor(qtensor)
    kind = JitScalarType.from_value(tensor) if qdtype is None else JitScalarType.from_onnx_type(qdtype)
    scale = _maybe_cast_to_type(g, scale, JitScalarType.FLOAT)
    zero_point = _maybe_cast_to_type(g, zero_point, kind)
    result = g.op("DequantizeLinear", tensor, scale, zero_point, axis_i=_axis(axis[0] if axis else None))
    return result, scale, zero_point, axis[0] if axis else None


def quantize_helper(g: Any, tensor: Any, scale: Any, zero_point: Any, axis: Any = None) -> Any:
    """Quantize a tensor, and return a tuple value."""
    kind = JitScalarType.from_value(zero_point, JitScalarType.UNDEFINED)
    if kind not in _QUANTIZED:
        zero_point = g.op("Cast", zero_point, to_i=TensorProtoDataType.UINT8)
    scale = _maybe_cast_to_type(g, scale, JitScalarType.FLOAT)
    made = g.op("QuantizeLinear", tensor, scale, zero_point, axis_i=_axis(axis))
    return g.op("prim::TupleConstruct", made, scale, zero_point, *([] if _is_none(axis) else [axis]))


def requantize_bias_helper(g: Any, bias: Any, input_scale: Any, weight_scale: Any, axis: Any = None) -> Any:
    """Quantize a bias with the product of the two scales and the zero point 0."""
    scale = g.op("Mul", weight_scale, input_scale)
    zero = g.op("ConstantOfShape", g.op("Shape", scale), value_t=torch.tensor([0], dtype=torch.int32))
    made = g.op("Cast", g.op("Div", bias, scale), to_i=TensorProtoDataType.INT32)
    return g.op("prim::TupleConstruct", made, scale, zero, *([] if _is_none(axis) else [axis]))


def _axis(axis: Any) -> int | None:
    if _is_none(axis):
        return None
    return int(axis.node().t("value")) if _is_value(axis) else int(axis)


def quantized_args(
    *arg_q_descriptors: bool, scale: float | None = None, zero_point: int | None = None, quantize_output: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic of floats so that it takes quantized tensors.

    The marked arguments are dequantized. The result is quantized with `scale` and `zero_point`, or, where they are None, with
    those of the first quantized argument.
    """

    def decorator(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            found: list[tuple[Any, Any]] = []

            def plain(marked: bool, arg: Any) -> Any:
                if not marked or not _is_value(arg):
                    return arg
                if _is_packed_list(arg):
                    elements = _unpack_list(arg)
                    changed = [plain(True, each) for each in elements]
                    if all(one is two for one, two in zip(elements, changed, strict=True)):
                        return arg
                    return g.op("prim::ListConstruct", *changed)
                if not _is_tuple_construct(arg):
                    return arg
                result, its_scale, its_zero_point, _ = dequantize_helper(g, arg)
                found.append((its_scale, its_zero_point))
                return result

            marks = [*arg_q_descriptors, *[False] * len(args)]
            output = fn(g, *[plain(mark, arg) for mark, arg in zip(marks, args, strict=False)], **kwargs)
            if not found or not quantize_output:
                return output
            own_scale = found[0][0] if scale is None else g.op("Constant", value_t=torch.tensor(scale))
            own_zero = found[0][1] if zero_point is None else g.op("Constant", value_t=torch.tensor(zero_point))
            return quantize_helper(g, output, own_scale, own_zero)

        return wrapper

    return decorator
