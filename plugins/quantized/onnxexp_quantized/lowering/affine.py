"""Affine quantization: QuantizeLinear and DequantizeLinear, or their arithmetic.

QuantizeLinear and DequantizeLinear take one scale from opset 10 on, one for each index of an axis from 13 on, and one for each
block along an axis from 21 on. Other dtypes, opsets and layouts are computed: ``clamp(round(x * (1 / scale)) + zero_point)`` and
``(x - zero_point) * scale``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.rewriting import onnx_dtype

NARROW = "quantized.narrow"
"""Key in `ExportContext.plugin_data`: the plugin's option `narrow`."""

FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
_FIRST_OPSETS = {torch.uint8: 10, torch.int8: 10, torch.uint16: 21, torch.int16: 21}
_AXIS, _BLOCKS, _FLOAT8, _INTEGER_CLIP = 13, 21, 19, 12
"""The first opsets with a scale by axis, with blocks, with float8, and with Clip of 8-bit integers."""


@dataclasses.dataclass(frozen=True)
class Affine:
    """Scales and zero points, and the parts of a tensor that they belong to.

    Attributes:
        scale: 0-d: one scale. 1-d with an `axis`: one for each of its indices. Of the tensor's rank: it broadcasts, or, with a
            `block`, has one element for `block` indices of `axis`.
        zero_point: Of the shape of `scale`; None for zeros.
        axis: The axis of the scales.
        block: The number of consecutive indices of `axis` with the same scale; 0 without blocks.
    """

    scale: Tensor
    zero_point: Tensor | None
    axis: int | None = None
    block: int = 0

    @property
    def first_opset(self) -> int:
        """The first opset whose operators take these scales; 99 if none does."""
        if self.block:
            return _BLOCKS
        if self.axis is not None:
            return _AXIS
        return 10 if self.scale.rank == 0 else 99


def quantize(
    op: Builder,
    x: Tensor,
    affine: Affine,
    lowest: int,
    highest: int,
    dtype: torch.dtype,
    *,
    zero_point_first: bool = False,
) -> Tensor:
    """Quantize to integers from `lowest` to `highest`.

    `zero_point_first` adds the zero point before the rounding, which differs at ties only.
    """
    x = op.cast(x, torch.float32)
    whole = dtype in _FIRST_OPSETS and _is_whole(dtype, lowest, highest)
    first = max(_FIRST_OPSETS.get(dtype, 99), affine.first_opset, 10 if whole else _INTEGER_CLIP)
    if not whole and dtype not in (torch.uint8, torch.int8):
        first = 99
    constant = affine.scale.rank == 0 or op.is_static(affine.scale)
    if op.opset < first or not constant or zero_point_first or not _fits(affine.zero_point, dtype):
        return _quantize_by_arithmetic(op, x, affine, lowest, highest, dtype, zero_point_first)
    quantized = op.QuantizeLinear(x, affine.scale, _zero_point(op, affine, dtype), **_attributes(affine))
    return quantized if whole else op.Clip(quantized, op.constant(lowest, dtype), op.constant(highest, dtype))


def dequantize(op: Builder, x: Tensor, affine: Affine, to: torch.dtype | None = None) -> Tensor:
    """Dequantize integers or float8 numbers; the result is float32 if `to` is None."""
    dtype, zero = x.dtype, affine.zero_point
    first = max(_FIRST_OPSETS.get(dtype, 99), affine.first_opset)
    if dtype == torch.int32 and (zero is None or _is_zero(zero)):
        first = affine.first_opset
    if dtype in FLOAT8:
        first = max(_FLOAT8, affine.first_opset)
        check_float8(op, dtype)
    if op.opset < first or not _fits(zero, dtype):
        result = _dequantize_by_arithmetic(op, x, affine)
    else:
        result = op.DequantizeLinear(x, affine.scale, _zero_point(op, affine, dtype), **_attributes(affine))
    return op.cast(result, to or torch.float32)


def check_width(op: Builder, x: Tensor, lowest: int, highest: int) -> None:
    """Refuse a narrow weight below its opset, where `narrow` is "error".

    Raises OpsetError.
    """
    bits = int(highest - lowest).bit_length()
    first = 25 if bits <= 2 else 21 if bits <= 4 else 0
    if op.opset < first and x.const is not None and op.context.plugin_data.get(NARROW) == "error":
        text = f"a weight of {bits} bits, from {lowest} to {highest}, and the target is opset {op.opset}"
        op.opset_error(f'{text}; to fix this, use opset {first}, or Quantized(narrow="widen") for 8 bits', first)


def as_scalar(op: Builder, number: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return a number, or a tensor of one element, as a 0-d tensor."""
    if not isinstance(number, Tensor):
        return op.constant(number, dtype)
    scalar = number if number.rank == 0 else op.Reshape(number, op.constant([], torch.int64))
    return scalar if dtype is None else op.cast(scalar, dtype)


def kept_cast(op: Builder, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a Cast that is never folded: a quantized weight stays as small as it is."""
    if x.dtype in FLOAT8:
        check_float8(op, x.dtype)
    if x.const is None or x.dtype == dtype:
        return op.cast(x, dtype)
    (result,) = op.emit("", "Cast", [x], {"to": int(onnx_dtype(dtype))})
    return result


def _quantize_by_arithmetic(
    op: Builder, x: Tensor, affine: Affine, lowest: int, highest: int, dtype: torch.dtype, zero_point_first: bool
) -> Tensor:
    if dtype in FLOAT8:
        check_float8(op, dtype)
    grouped, scale, zero = _grouped(op, x, affine)
    zero = None if _is_made_zero(op, zero) else zero
    steps = op.Mul(grouped, op.Div(1.0, scale))
    if zero is None and dtype in (torch.uint8, torch.int8) and _is_whole(dtype, lowest, highest):
        integers = op.QuantizeLinear(steps, op.constant(1.0), op.constant(0, dtype))
        return _restored(op, integers, x, affine)
    if zero is not None and zero_point_first:
        steps = op.Add(steps, op.cast(zero, torch.float32))
    (steps,) = op.torch_op("aten::round", steps)
    if zero is not None and not zero_point_first:
        steps = op.Add(steps, op.cast(zero, torch.float32))
    clipped = op.Clip(steps, _float_limit(lowest), _float_limit(highest))
    return _restored(op, op.cast(clipped, dtype), x, affine)


def _dequantize_by_arithmetic(op: Builder, x: Tensor, affine: Affine) -> Tensor:
    grouped, scale, zero = _grouped(op, kept_cast(op, x, torch.float32), affine)
    if not _is_made_zero(op, zero):
        grouped = op.Sub(grouped, op.cast(zero, torch.float32))
    return _restored(op, op.Mul(grouped, scale), x, affine)


def _is_whole(dtype: torch.dtype, lowest: int, highest: int) -> bool:
    """Return whether limits are those of an integer dtype."""
    return (lowest, highest) == (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


def _float_limit(limit: int) -> float:
    """Return a limit as the nearest float32 inside the range of int32."""
    return min(float(limit), 2147483520.0)


def _grouped(op: Builder, x: Tensor, affine: Affine) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return a tensor, its scales and zero points in shapes that broadcast."""
    scale, zero, axis = affine.scale, affine.zero_point, affine.axis
    if axis is None:
        return x, scale, zero
    assert x.rank is not None and x.shape is not None
    if not affine.block:
        shape = [1] * axis + [-1] + [1] * (x.rank - axis - 1)
        return x, op.Reshape(scale, shape), None if zero is None else op.Reshape(zero, shape)
    after = list(x.shape[axis + 1 :])
    sizes = [0] * axis + [scale.shape[axis] if scale.shape else -1, affine.block, *_with_one_unknown(op, after)]
    return (
        op.Reshape(x, sizes),
        op.Unsqueeze(scale, axes=[axis + 1]),
        None if zero is None else op.Unsqueeze(zero, axes=[axis + 1]),
    )


def _restored(op: Builder, grouped: Tensor, x: Tensor, affine: Affine) -> Tensor:
    """Undo the reshaping of `_grouped`."""
    if not affine.block:
        return grouped
    assert affine.axis is not None and x.shape is not None
    sizes = [0] * affine.axis + [x.shape[affine.axis], *_with_one_unknown(op, list(x.shape[affine.axis + 1 :]))]
    return op.Reshape(grouped, sizes)


def _with_one_unknown(op: Builder, sizes: list[Any]) -> list[int]:
    unknown = [size for size in sizes if not isinstance(size, int)]
    if len(unknown) > 1:
        op.decline("more than one size after the axis of the blocks is dynamic")
    return [size if isinstance(size, int) else -1 for size in sizes]


def _attributes(affine: Affine) -> dict[str, int]:
    found = {} if affine.axis is None else {"axis": affine.axis}
    return found | {"block_size": affine.block} if affine.block else found


def _zero_point(op: Builder, affine: Affine, dtype: torch.dtype) -> Tensor:
    """Return explicit zero points: ONNX Runtime fuses nothing without them."""
    if affine.zero_point is not None:
        return op.cast(affine.zero_point, dtype)
    if affine.scale.const is None:
        return op.cast(op.Mul(affine.scale, 0.0), dtype)
    return op.constant(torch.zeros(affine.scale.const.shape, dtype=dtype))


def _is_zero(zero: Tensor) -> bool:
    return zero.const is not None and not bool(zero.const.to(torch.float32).any())


def _is_made_zero(op: Builder, zero: Tensor | None) -> bool:
    """Return whether zero points are 0, computed ones of run-time scales included."""
    while zero is not None and zero.const is None:
        made = op.producer(zero)
        if made is None or made.operator not in ("Cast", "Mul", "Reshape", "Squeeze", "Unsqueeze"):
            return False
        zero = made.inputs[1] if made.operator == "Mul" else made.inputs[0]
    return zero is None or _is_zero(zero)


def _fits(zero: Tensor | None, dtype: torch.dtype) -> bool:
    """Return whether zero points are integers of a dtype, as far as they are known."""
    if zero is None or dtype in FLOAT8:
        return zero is None or _is_zero(zero)
    if zero.const is None:
        return not zero.dtype.is_floating_point
    limits, known = torch.iinfo(dtype), zero.const.to(torch.float64)
    return bool(((known == known.round()) & (known >= limits.min) & (known <= limits.max)).all())


def check_float8(op: Builder, dtype: torch.dtype) -> None:
    """Refuse float8 numbers below the opset that has them.

    Raises OpsetError.
    """
    if op.opset < _FLOAT8:
        op.opset_error(f"ONNX has {dtype} from opset {_FLOAT8} on; the target is opset {op.opset}", _FLOAT8)
