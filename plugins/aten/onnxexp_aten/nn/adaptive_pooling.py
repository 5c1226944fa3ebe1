"""Pooling to a given output size.

Window i of an axis of size n covers floor(i n / m) to ceil((i + 1) n / m).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.nn.pooling import Windows, largest_with_indices, plane_size
from onnxexp_aten.support.axis_products import axis_sizes, batched, linear_map_matrix, multiply_axis
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of
from onnxexp_aten.support.view_nodes import permuted, unsqueezed

table = SymbolicTable("aten")


class _Axis:
    """One axis to pool: its number, its sizes before and after pooling.

    A size is an int where it is static, else an expression. `given` is the size after pooling as the call has it.
    """

    def __init__(self, number: int, before: Any, after: Any, given: Any) -> None:
        self.number = number
        self.before = before
        self.after = after
        self.given = after if isinstance(after, int) else given

    @property
    def kept(self) -> bool:
        return self.before == self.after

    @property
    def whole(self) -> bool:
        return self.after == 1

    @property
    def known(self) -> bool:
        return isinstance(self.before, int) and isinstance(self.after, int)

    @property
    def window(self) -> int | None:
        """Size of the windows where they are equal and adjacent, else None."""
        if self.kept:
            return 1
        if isinstance(self.before, int) and isinstance(self.after, int) and self.after and self.before % self.after == 0:
            return self.before // self.after
        return None


def _axes(op: Builder, x: Tensor, output_size: Sequence[Any]) -> list[_Axis]:
    dims, rank, after = len(output_size), rank_of(op, x), sizes_of(op)
    assert after is not None
    before = axis_sizes(op, x, dims)
    return [_Axis(rank - dims + i, before[i], after[len(after) - dims + i], output_size[i]) for i in range(dims)]


def _windows(axes: Sequence[_Axis]) -> Windows:
    sizes = [axis.window or 1 for axis in axes]
    zeros = [0] * len(sizes)
    return Windows(sizes, sizes, [1] * len(sizes), zeros, zeros)


# Average


@table("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(op: Builder, self: Tensor, output_size: list[Any]) -> Tensor:
    """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    return batched(op, self, len(output_size), lambda x: _averaged(op, x, _axes(op, x, output_size)))


def _averaged(op: Builder, x: Tensor, axes: list[_Axis]) -> Tensor:
    axes = [axis for axis in axes if not axis.kept] if all(axis.kept or axis.whole for axis in axes) else axes
    if all(axis.whole for axis in axes):
        return _mean(op, x, axes)
    if all(axis.window for axis in axes) and runs(op, "AveragePool", x.dtype):
        return compute(op, "AveragePool", x, **_windows(axes).attributes())
    whole = [axis for axis in axes if axis.whole]
    x = _mean(op, x, whole)
    for axis in axes:
        if not axis.kept and not axis.whole:
            x = multiply_axis(op, x, _shares(op, x, axis), axis.number)
    return x


def _mean(op: Builder, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    if not axes:
        return x
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    # ONNX Runtime's GlobalAveragePool refuses 0 channels
    if len(axes) == rank_of(op, x) - 2 and isinstance(channels, int) and runs(op, "GlobalAveragePool", x.dtype):
        return op.GlobalAveragePool(x)
    return compute(op, "ReduceMean", x, axes=[axis.number for axis in axes], keepdims=1)


def _shares(op: Builder, x: Tensor, axis: _Axis) -> Tensor:
    """Compute the weight of each element in each window's mean, [before, after]."""
    if axis.known:
        after = int(axis.after)
        return linear_map_matrix(op, int(axis.before), lambda unit: torch.ops.aten.adaptive_avg_pool1d(unit, [after]), x.dtype)
    starts, ends = _bounds(op, x, axis)
    places = op.Unsqueeze(arange_of(op, 0, size_at(op, x, axis.number), 1, torch.int64), [1])
    inside = op.And(op.Less(places, ends), op.Not(op.Less(places, starts)))
    return op.Div(op.cast(inside, x.dtype), op.cast(op.Sub(ends, starts), x.dtype))


def _bounds(op: Builder, x: Tensor, axis: _Axis) -> tuple[Tensor, Tensor]:
    """Compute begin and end of each window, int64[after] each."""
    before, after = size_at(op, x, axis.number), axis.given
    if axis.known and isinstance(before, int):
        windows = torch.arange(int(axis.after))
        return op.constant(windows * before // after), op.constant(-((windows + 1) * -before // after))
    numbers = arange_of(op, 0, after, 1, torch.int64)
    products = op.Mul(numbers, before)
    reached = op.Add(products, op.Sub(op.Add(before, after), 1) if isinstance(before, Tensor) else op.Add(after, before - 1))
    divisor = op.Where(op.Equal(after, 0), 1, after) if isinstance(after, Tensor) else after  # no windows: nothing to divide
    return op.Div(products, divisor), op.Div(reached, divisor)


# Maximum


@table("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(op: Builder, self: Tensor, output_size: list[Any]) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""

    def pooled(x: Tensor) -> tuple[Tensor, Tensor]:
        axes = _axes(op, x, output_size)
        if all(axis.window for axis in axes) and not all(axis.whole for axis in axes):
            return largest_with_indices(op, x, _windows(axes))
        return _maximum(op, x, axes), _where(op, x, axes)

    return batched(op, self, len(output_size), pooled)


def _maximum(op: Builder, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    if all(axis.whole for axis in axes):
        return compute(op, "ReduceMax", x, axes=[axis.number for axis in axes], keepdims=1)
    for axis in axes:
        if not axis.kept:
            x = op.Gather(x, _members(op, x, axis), axis=axis.number)
            x = compute(op, "ReduceMax", x, axes=[axis.number + 1], keepdims=0)
    return x


def _members(op: Builder, x: Tensor, axis: _Axis) -> Tensor:
    """List the positions in each window, int64[after, longest].

    A shorter window repeats its last position.
    """
    starts, ends = _bounds(op, x, axis)
    if starts.const is not None and ends.const is not None:
        longest = int((ends.const - starts.const).max())
        grid = starts.const[:, None] + torch.arange(longest)
        return op.constant(torch.minimum(grid, ends.const[:, None] - 1))
    longest = op.ReduceMax(op.cast(op.Sub(ends, starts), torch.int32), axes=[0], keepdims=0)
    grid = op.Add(op.Unsqueeze(starts, [1]), arange_of(op, 0, op.cast(longest, torch.int64), 1, torch.int64))
    return compute(op, "Min", grid, op.Sub(op.Unsqueeze(ends, [1]), 1))


def _where(op: Builder, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    """Find the position of each maximum in its plane.

    The positions of each window are laid side by side; the first largest wins.
    """
    dims, lead = len(axes), rank_of(op, x) - len(axes)
    if all(axis.whole for axis in axes):
        best = compare(op, "ArgMax", op.Reshape(x, [0] * lead + [-1]), axis=-1, keepdims=1)
        return unsqueezed(op, best, range(lead + 1, lead + dims))
    places, count = op.constant(0), op.constant(1)
    spread = x
    for turn, axis in enumerate(axes):
        members = _members(op, x, axis)
        spread = op.Gather(spread, members, axis=axis.number + turn)
        own = op.Unsqueeze(members, [other for other in range(2 * dims) if other not in (turn, dims + turn)])
        places = op.Add(op.Mul(places, size_at(op, x, axis.number)), own)
        count = op.Mul(count, size_at(op, members, 1))
    order = [*range(lead), *range(lead, lead + 2 * dims, 2), *range(lead + 1, lead + 2 * dims, 2)]
    together = op.Reshape(permuted(op, spread, order), [0] * (lead + dims) + [-1])
    best = compare(op, "ArgMax", together, axis=-1, keepdims=0)
    after = [axis.given for axis in axes]
    windows = op.Reshape(arange_of(op, 0, plane_size(op, best, dims), 1, torch.int64), op.constant(after, torch.int64))
    return op.Gather(op.Reshape(places, [-1]), op.Add(best, op.Mul(windows, count)), axis=0)
