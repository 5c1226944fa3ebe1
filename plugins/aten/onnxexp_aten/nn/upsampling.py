"""Upsampling: nearest, linear and cubic, in one to three dimensions.

Resize does it from opset 11 on. Older opsets, dtypes without a kernel, torch's antialiasing, and nearest neighbours that
Resize rounds differently are computed axis by axis, by lookup or by a product with torch's own weights. Both are exact.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.axis_products import axis_sizes, linear_map_matrix, multiply_axis, spatial_dims
from onnxexp_aten.support.kernel_dtypes import has_operator, running_dtype, targets_plain_onnx
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of

table = SymbolicTable("aten")


@dataclasses.dataclass(frozen=True)
class Axis:
    """One axis: its number, its sizes before and after, torch's scale.

    A size is an int where it is static, else an expression. `given` is the size after as the call has it; None where only the
    scale was given.
    """

    number: int
    before: Any
    after: Any
    given: int | Tensor | None
    scale: float | None

    @property
    def known(self) -> bool:
        return isinstance(self.before, int) and isinstance(self.after, int)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of resampling.

    Attributes:
        weights: torch's operator on one axis of ``[1, n, n]``.
        resize: Resize's attributes; None where Resize differs from torch.
        first_opset: First opset whose Resize has the mode. Schemas do not list the values of attributes.
    """

    weights: Callable[[torch.Tensor, int, bool, float | None], torch.Tensor]
    resize: dict[str, Any] | None
    align_corners: bool = False
    first_opset: int = 11


def _axes(op: Builder, x: Tensor, output_size: Any, scales: Sequence[float | None] | None, dims: int) -> list[Axis]:
    rank, after = rank_of(op, x), sizes_of(op)
    before = axis_sizes(op, x, dims)
    assert after is not None
    columns = range(rank - dims, rank), before, after[rank - dims :], output_size or [None] * dims, scales or [None] * dims
    return [Axis(*row) for row in zip(*columns, strict=True)]


def _after(op: Builder, x: Tensor, axis: Axis) -> int | Tensor:
    """Return the size after resampling, for use in the graph."""
    if isinstance(axis.after, int):
        return axis.after
    if axis.given is not None:
        return axis.given
    before = op.cast(size_at(op, x, axis.number), torch.float32)
    return op.cast(op.Floor(op.Mul(before, axis.scale)), torch.int64)


# Resize


def _resize(op: Builder, x: Tensor, axes: Sequence[Axis], kind: Kind) -> Tensor:
    """Emit Resize, by scales where torch computes with scales, else by sizes.

    Both are for all axes. With `axes`, which opset 18 has, onnxslim does not end, and OpenVINO and MNN fail.
    """
    assert kind.resize is not None
    inner = running_dtype(op, "Resize", x.dtype)
    data, rank = op.cast(x, inner), rank_of(op, x)
    lead = rank - len(axes)
    # before opset 13 Resize requires inputs that it does not use; one helper of many symbolics, so no `since=`
    nothing = op.constant([], torch.float32) if op.opset < 13 else None
    scales = _constant_scales(op, x, axes, kind)
    if scales is not None:
        result = op.Resize(data, nothing, op.constant([1.0] * lead + scales, torch.float32), **kind.resize)
    else:
        sizes = [size_at(op, x, axis) for axis in range(lead)] + [_after(op, x, axis) for axis in axes]
        result = op.Resize(data, nothing, nothing, sizes, **kind.resize)
    return op.cast(result, x.dtype)


def _constant_scales(op: Builder, x: Tensor, axes: Sequence[Axis], kind: Kind) -> list[float] | None:
    """Return float32 scales that give the right sizes, or None if sizes are better."""
    scales = [(axis, axis.scale) for axis in axes if axis.scale is not None]
    if len(scales) == len(axes):
        return [_fitting(axis, float(scale)) for axis, scale in scales]
    lead = (x.shape or ())[: rank_of(op, x) - len(axes)]
    if all(isinstance(size, int) for size in lead) or not all(axis.known for axis in axes):
        return None
    return [_fitting(axis, int(axis.after) / int(axis.before)) for axis in axes]


def _fitting(axis: Axis, scale: float) -> float:
    """Return the nearest float32 scale for which Resize computes torch's size.

    The product may be taken in float32 or float64.
    """
    found = torch.tensor(scale, dtype=torch.float32)
    if axis.known:
        up = torch.tensor(float("inf"))
        while min(float(found) * int(axis.before), float(found * axis.before)) < int(axis.after):
            found = torch.nextafter(found, up)
    return float(found)


# Nearest


def _nearest(op: Builder, x: Tensor, axes: Sequence[Axis], exact: bool) -> Tensor:
    transform = "half_pixel" if exact else "asymmetric"
    rounding = "round_prefer_ceil" if exact else "floor"
    attributes = {"mode": "nearest", "coordinate_transformation_mode": transform, "nearest_mode": rounding}
    kind = Kind(_linear_weights, attributes)
    if _takes_nearest(op, x.dtype):  # the first opset that agrees with torch depends on the axes too, unlike `since=`
        if op.opset >= kind.first_opset and all(_same_neighbours(axis, exact) for axis in axes):
            return _resize(op, x, axes, kind)
        if op.opset < kind.first_opset and not exact and all(_grows(axis) for axis in axes):
            scales = op.constant([1.0] * (rank_of(op, x) - len(axes)) + [_grown(axis) for axis in axes], torch.float32)
            return op.call("", "Resize" if has_operator(op, "Resize") else "Upsample", x, scales, mode="nearest")
    for axis in axes:
        if axis.before != axis.after:
            x = op.Gather(x, _neighbours(op, x, axis, exact), axis=axis.number)
    return x


_NEAREST_DTYPES = (torch.float16, torch.float32, torch.int8, torch.uint8, torch.int32)
"""Dtypes of ONNX Runtime's Resize for nearest neighbours."""


def _takes_nearest(op: Builder, dtype: torch.dtype) -> bool:
    return dtype in _NEAREST_DTYPES or (
        targets_plain_onnx(op) and op.takes("Resize" if has_operator(op, "Resize") else "Upsample", dtype)
    )


def _torch_neighbours(axis: Axis, exact: bool) -> torch.Tensor:
    """Return the position that torch reads for each position of the result."""
    function = torch.ops.aten._upsample_nearest_exact1d if exact else torch.ops.aten.upsample_nearest1d
    places = torch.arange(int(axis.before), dtype=torch.float64)
    found: torch.Tensor = function(places[None, None], [int(axis.after)], axis.scale)
    return found[0, 0].to(torch.int64)


def _same_neighbours(axis: Axis, exact: bool) -> bool:
    """Return whether Resize finds the same nearest neighbours as torch.

    Resize divides by a float32 scale. It agrees where one size divides the other, and differs for every sixth pair of sizes
    up to 200, so it gets no dynamic size without a known ratio.
    """
    if not axis.known:
        return _divides(axis)
    before, after = int(axis.before), int(axis.after)
    places, expected = torch.arange(after, dtype=torch.float32), _torch_neighbours(axis, exact)
    for scale in {_fitting(axis, axis.scale or after / before), axis.scale or after / before}:
        divisor = torch.tensor(scale, dtype=torch.float32)
        found = torch.floor((places + 0.5) / divisor - 0.5 + 0.5) if exact else torch.floor(places / divisor)
        if not torch.equal(found.clamp(0, before - 1).to(torch.int64), expected):
            return False
    return True


def _divides(axis: Axis) -> bool:
    """Return whether one size of a dynamic axis is certainly a multiple of the other."""
    if axis.scale is not None:
        return axis.scale.is_integer() or math.frexp(axis.scale)[0] == 0.5
    short, long = sorted((str(axis.before), str(axis.after)), key=len)
    return long == short or (long.endswith(f"*{short}") and long.removesuffix(f"*{short}").isdigit())


def _grows(axis: Axis) -> bool:
    """Return whether the scale is known and at least 1, as Upsample requires."""
    if not axis.known:
        return axis.scale is not None and axis.scale.is_integer()
    return int(axis.after) >= int(axis.before) and _same_neighbours(axis, False)


def _grown(axis: Axis) -> float:
    return _fitting(axis, axis.scale or int(axis.after) / int(axis.before))


def _neighbours(op: Builder, x: Tensor, axis: Axis, exact: bool) -> Tensor:
    if axis.known:
        return op.constant(_torch_neighbours(axis, exact))
    places = arange_of(op, 0, _after(op, x, axis), 1, torch.float32)
    if exact:
        places = op.Add(places, 0.5)
    return op.cast(op.Mul(places, _step(op, x, axis)), torch.int64)


def _step(op: Builder, x: Tensor, axis: Axis) -> Any:
    """Return the distance between the positions read: a float or a float32 tensor."""
    if axis.scale is not None:
        return 1.0 / axis.scale
    before, after = size_at(op, x, axis.number), _after(op, x, axis)
    return op.Div(op.cast(before, torch.float32), op.cast(after, torch.float32))


# Products with weights


def resampled(op: Builder, x: Tensor, axes: Sequence[Axis], kind: Kind) -> Tensor:
    """Resample by Resize where it agrees with torch, else by weights."""
    known = all(axis.known for axis in axes)
    # the first opset with a mode depends on the mode, and resampling by weights is the same at every opset
    by_resize = kind.resize is not None and op.opset >= kind.first_opset
    if not x.dtype.is_floating_point:
        return _rounded(op, x, axes, kind)
    by_weights = known and ((x.dtype == torch.float64 and not targets_plain_onnx(op)) or not all(map(_fits, axes)))
    if by_resize and not by_weights:
        return _resize(op, x, axes, kind)
    for axis in axes:
        if axis.before != axis.after:
            x = multiply_axis(op, x, _weights(op, x, axis, kind), axis.number)
    return x


def _fits(axis: Axis) -> bool:
    """Return whether the size equals the scaled size.

    torch's operators accept any pair; Resize takes one of the two.
    """
    return axis.scale is None or int(int(axis.before) * axis.scale) == axis.after


def _rounded(op: Builder, x: Tensor, axes: Sequence[Axis], kind: Kind) -> Tensor:
    """Resample uint8: round after each axis, the last axis first.

    torch uses weights of 15 bits.
    """
    result = op.cast(x, torch.float32)
    for axis in reversed(axes):
        if axis.before != axis.after:
            weights = _weights(op, result, axis, kind)
            known = weights.const
            result = multiply_axis(op, result, weights if known is None else op.constant(_fixed_point(known)), axis.number)
            result = op.Clip(op.Floor(op.Add(result, 0.5)), 0.0, 255.0)
    return op.cast(result, x.dtype)


def _fixed_point(weights: torch.Tensor) -> torch.Tensor:
    """Round weights to 15 bits as torch does for bytes.

    The unit is the smallest power of two with which the largest weight fits.
    """
    largest = float(weights.max())
    places = next((places for places in range(22) if int(0.5 + largest * 2.0 ** (places + 1)) >= 2**15), 22)
    steps = weights.double() * 2.0**places
    return ((steps.abs() + 0.5).floor() * steps.sign() / 2.0**places).to(weights.dtype)


def _weights(op: Builder, x: Tensor, axis: Axis, kind: Kind) -> Tensor:
    """Compute the weight of each source position in each result, [before, after]."""
    if axis.known:
        scale = None if kind.align_corners else axis.scale
        return linear_map_matrix(
            op, int(axis.before), lambda unit: kind.weights(unit, int(axis.after), kind.align_corners, scale), x.dtype
        )
    if kind.resize is None:
        op.decline("the sizes must be known at export")
    if kind.weights is not _linear_weights:
        op.opset_error("a dynamic size needs Resize with this mode", kind.first_opset)
    places = _places(op, x, axis, kind.align_corners)
    rows = arange_of(op, 0, size_at(op, x, axis.number), 1, torch.float32)
    distance = op.Abs(op.Sub(op.Unsqueeze(places, [0]), op.Unsqueeze(rows, [1])))
    return op.cast(op.Relu(op.Sub(1.0, distance)), x.dtype)


def _places(op: Builder, x: Tensor, axis: Axis, align_corners: bool) -> Tensor:
    """Compute the source coordinate of each result, float32 within the axis."""
    before, after = (op.cast(size, torch.float32) for size in (size_at(op, x, axis.number), _after(op, x, axis)))
    numbers = arange_of(op, 0, _after(op, x, axis), 1, torch.float32)
    last = op.Sub(before, 1.0)
    if align_corners:
        return op.Mul(numbers, op.Div(last, op.Max(op.Sub(after, 1.0), 1.0)))
    middles = op.Mul(op.Add(numbers, 0.5), _step(op, x, axis))
    return op.Min(op.Relu(op.Sub(middles, 0.5)), last)


def _linear_weights(unit: torch.Tensor, after: int, align_corners: bool, scale: float | None) -> torch.Tensor:
    return torch.ops.aten.upsample_linear1d(unit, [after], align_corners, scale)


def _planar(name: str) -> Callable[[torch.Tensor, int, bool, float | None], torch.Tensor]:
    """Return the weights function of an operator that torch has for two axes only."""

    def weights(unit: torch.Tensor, after: int, align_corners: bool, scale: float | None) -> torch.Tensor:
        function = getattr(torch.ops.aten, name)  # several operators, chosen by name
        found: torch.Tensor = function(unit[None], [unit.shape[1], after], align_corners, None, scale)
        return found[0]

    return weights


def _antialias(attributes: dict[str, Any], align_corners: bool) -> dict[str, Any] | None:
    """Return Resize's attributes for antialiasing, or None for aligned corners.

    torch places the windows differently where corners are aligned.
    """
    if align_corners:
        return None
    return {**attributes, "coordinate_transformation_mode": "half_pixel", "antialias": 1, "exclude_outside": 1}


def _transform(align_corners: bool) -> str:
    return "align_corners" if align_corners else "half_pixel"


def _called(op: Builder, x: Tensor, output_size: Any, scales: Sequence[Any]) -> list[Axis]:
    """Return the axes of a call, for both kinds of overloads.

    The overload .vec has one list of scales, and the other has one number per axis.
    """
    factors = scales[0] if len(scales) == 1 and isinstance(scales[0], (list, tuple)) else scales
    known = [op.static(factor, "scale_factor") for factor in factors or []]
    return _axes(op, x, output_size, known if None not in known else None, spatial_dims(op))


@table("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(op: Builder, self: Tensor, output_size: Any, *scales: Any) -> Tensor:
    """upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return _nearest(op, self, _called(op, self, output_size, scales), False)


@table("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def upsample_nearest_exact(op: Builder, self: Tensor, output_size: Any, *scales: Any) -> Tensor:
    """_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return _nearest(op, self, _called(op, self, output_size, scales), True)


@table("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(op: Builder, self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    attributes = {"mode": "linear", "coordinate_transformation_mode": _transform(align_corners)}
    return resampled(op, self, _called(op, self, output_size, scales), Kind(_linear_weights, attributes, align_corners))


@table("upsample_bicubic2d")
def upsample_cubic(op: Builder, self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    attributes = {"mode": "cubic", "coordinate_transformation_mode": _transform(align_corners)}
    kind = Kind(_planar("upsample_bicubic2d"), attributes, align_corners)
    return resampled(op, self, _called(op, self, output_size, scales), kind)


@table("_upsample_bilinear2d_aa")
def upsample_linear_antialias(op: Builder, self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    kind = Kind(_planar("_upsample_bilinear2d_aa"), _antialias({"mode": "linear"}, align_corners), align_corners, 18)
    return resampled(op, self, _called(op, self, output_size, scales), kind)


@table("_upsample_bicubic2d_aa")
def upsample_cubic_antialias(op: Builder, self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    attributes = _antialias({"mode": "cubic", "cubic_coeff_a": -0.5}, align_corners)
    kind = Kind(_planar("_upsample_bicubic2d_aa"), attributes, align_corners, 18)
    return resampled(op, self, _called(op, self, output_size, scales), kind)


@table("_upsample_lanczos2d_aa")
def upsample_lanczos_antialias(op: Builder, self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    kind = Kind(_planar("_upsample_lanczos2d_aa"), None, align_corners)
    return resampled(op, self, _called(op, self, output_size, scales), kind)
