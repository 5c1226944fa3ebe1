"""Numerical derivatives and integrals along an axis."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import scaled
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.reduction.reductions import reduced, summable
from onnxexp_aten.shape.concat_and_split import cat
from onnxexp_aten.shape.padding import padded
from onnxexp_aten.shape.views_and_slices import select_slice
from onnxexp_aten.support.constant_of_shape import MAX_TABLE
from onnxexp_aten.support.kernel_dtypes import compute, runs
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.type_promotion import promote, to_float
from onnxexp_aten.support.view_nodes import END, sliced, unsqueezed

table = SymbolicTable("aten")


@table("gradient.scalarint", "gradient.scalararray", "gradient.array", "gradient.scalarrayint", "gradient.scalarrayarray")
def gradient(op: Builder, self: Tensor, *args: Any) -> list[Tensor]:
    """gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]

    Other overloads take lists of spacings or dims; gradient.array has no spacing.
    """
    spacing, dims, edge_order = (1, *args) if op.node.op == "aten::gradient.array" else args
    dims = list(range(rank_of(op, self))) if dims is None else dims if isinstance(dims, list) else [dims]
    gaps = spacing if isinstance(spacing, list) else [1 if spacing is None else spacing] * len(dims)
    if edge_order != 1 or self.dtype.is_complex or not op.is_static(gaps):
        op.decline("only real numbers, static spacings and edge_order=1 are supported")
    return [_slopes(op, self, axis_of(op, self, dim), op.static(gap)) for dim, gap in zip(dims, gaps, strict=True)]


def _slopes(op: Builder, x: Tensor, axis: int, gap: float) -> Tensor:
    """Compute slopes from the neighbours of each sample, one-sided at the ends."""
    size, rank = size_at(op, x, axis), rank_of(op, x)
    if isinstance(size, Tensor) or size > MAX_TABLE or not runs(op, "Pad", x.dtype):
        op.decline("the size is dynamic or large, or Pad does not take the dtype")
    wider = padded(op, x, [0, 0] * (rank - axis - 1) + [1, 1], "replicate")
    rise = to_float(op, compute(op, "Sub", sliced(op, wider, axis, 2, END), sliced(op, wider, axis, 0, -2)))
    run = torch.full((size,), 2 * gap, dtype=rise.dtype)
    run[0] = run[-1] = gap
    return compute(op, "Div", rise, unsqueezed(op, op.constant(run), range(1, rank - axis)))


@table("trapezoid.x", "trapz.x")
def trapezoid(op: Builder, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"""
    axis = axis_of(op, y, dim)
    return _halved(op, reduced(op, "ReduceSum", _areas(op, y, x, axis), [axis]))


@table("cumulative_trapezoid.x")
def cumulative_trapezoid(op: Builder, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"""
    axis = axis_of(op, y, dim)
    return _halved(op, running_sum(op, _areas(op, y, x, axis), axis))


@table("trapezoid.dx", "trapz.dx")
def trapezoid_dx(op: Builder, y: Tensor, dx: Any, dim: int) -> Tensor:
    """trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"""
    axis = _axis(op, y, dim)
    if y.shape is not None and y.shape[axis] == 0:
        op.decline("there are no samples")
    ends = compute(op, "Add", select_slice(op, y, axis, 0), select_slice(op, y, axis, -1))
    total = to_float(op, reduced(op, "ReduceSum", summable(op, y, None), [axis]))
    return scaled(op, compute(op, "Sub", total, _halved(op, ends)), dx)


@table("cumulative_trapezoid.dx")
def cumulative_trapezoid_dx(op: Builder, y: Tensor, dx: Any, dim: int) -> Tensor:
    """cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"""
    axis = _axis(op, y, dim)
    heights = to_float(op, compute(op, "Add", *_neighbours(op, y, axis)))
    if op.is_static(dx):
        return running_sum(op, scaled(op, heights, op.static(dx) / 2), axis)
    return running_sum(op, scaled(op, _halved(op, heights), dx), axis)


@table("diff")
def diff(op: Builder, self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    """diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    parts = (
        [part for part in (prepend, self, append) if part is not None] if n else [self]
    )  # with n = 0 eager ignores prepend and append
    if any(part.dtype == torch.bool or part.dtype.is_complex for part in parts):
        op.decline("bool and complex dtypes are not supported")
    axis = axis_of(op, self, dim)
    x = cat(op, parts, axis)
    for _ in range(n):
        before, after = _neighbours(op, x, axis)
        x = compute(op, "Sub", after, before)
    return x


def _axis(op: Builder, y: Tensor, dim: int) -> int:
    if y.dtype.is_complex:
        op.decline("complex numbers are not supported")
    return axis_of(op, y, dim)


def _areas(op: Builder, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Compute twice the area between neighbouring samples.

    A 1-d `x` belongs to the axis. An `x` with fewer dimensions than `y` belongs to the last axes.
    """
    own = 0 if x.rank == 1 else axis - rank_of(op, y) + rank_of(op, x)
    if own < 0 or rank_of(op, x) > rank_of(op, y) or y.dtype.is_complex or x.dtype.is_complex:
        op.decline("the dtype is complex, or `x` lacks the axis")
    before, after = _neighbours(op, x, own)
    widths = compute(op, "Sub", after, before)
    if x.rank == 1:
        widths = unsqueezed(op, widths, range(1, rank_of(op, y) - axis))
    areas = compute(op, "Mul", *promote(op, compute(op, "Add", *_neighbours(op, y, axis)), widths))
    return summable(op, areas, None)


def _neighbours(op: Builder, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return all samples but the last, and all but the first."""
    return sliced(op, x, axis, 0, -1), sliced(op, x, axis, 1, END)


def _halved(op: Builder, x: Tensor) -> Tensor:
    return compute(op, "Mul", to_float(op, x), 0.5)
