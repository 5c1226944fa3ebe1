"""Image sampling at given positions, and affine grids of positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.kernel_dtypes import compute, running_dtype
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import sizes_of
from onnxexp_aten.support.view_nodes import permuted, reshaped, unsqueezed

table = SymbolicTable("aten")

_GRID_SAMPLERS = ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback")
_PADDINGS = ("zeros", "border", "reflection")


@table(*_GRID_SAMPLERS)
def grid_sampler(
    op: Builder, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    _needs_planes(op, input)
    if _PADDINGS[padding_mode] == "reflection":
        op.opset_error("ONNX has GridSample from opset 16 on", 16)
    op.decline("ONNX has GridSample from opset 16 on")


@table(*_GRID_SAMPLERS, since=16)
def grid_sampler_16(
    op: Builder, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    _needs_planes(op, input)
    return _sampled(op, input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode], padding_mode, align_corners)


@table(*_GRID_SAMPLERS, since=20)
def grid_sampler_20(
    op: Builder, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    return _sampled(op, input, grid, ("linear", "nearest", "cubic")[interpolation_mode], padding_mode, align_corners)


def _needs_planes(op: Builder, x: Tensor) -> None:
    if rank_of(op, x) > 4:
        op.opset_error("ONNX's GridSample takes volumes from opset 20 on", 20)


def _sampled(op: Builder, input: Tensor, grid: Tensor, mode: str, padding_mode: int, align_corners: bool) -> Tensor:
    inner = running_dtype(op, "GridSample", input.dtype)
    data, places = op.cast(input, inner), op.cast(grid, inner)
    attributes = {"mode": mode, "padding_mode": _PADDINGS[padding_mode], "align_corners": int(align_corners)}
    return op.cast(op.GridSample(data, places, **attributes), input.dtype)


@table("affine_grid_generator")
def affine_grid(op: Builder, theta: Tensor, size: list[Any], align_corners: bool) -> Tensor:
    """affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor"""
    sizes = sizes_of(op)
    assert sizes is not None
    spatial = [extent for extent in sizes[1:-1] if isinstance(extent, int)]
    if len(spatial) < len(sizes) - 2:
        return _affine_grid_of_any_size(op, theta, size[2:], align_corners)
    identity = torch.eye(len(spatial), len(spatial) + 1, dtype=torch.float64)[None]
    places = torch.affine_grid_generator(identity, [1, 1, *spatial], align_corners).reshape(-1, len(spatial))
    homogeneous = torch.cat([places, torch.ones(len(places), 1, dtype=torch.float64)], 1)
    grid = op.MatMul(op.constant(homogeneous, theta.dtype), permuted(op, theta, [0, 2, 1]))
    return reshaped(op, grid, sizes)


def _affine_grid_of_any_size(op: Builder, theta: Tensor, extents: Sequence[Any], align_corners: bool) -> Tensor:
    """Sum the columns of `theta` times the coordinates, whose last axis comes first.

    AffineGrid places the only element of an aligned axis at -1, torch at 0.
    """
    rank = len(extents)
    columns = [unsqueezed(op, op.Gather(theta, column, axis=2), range(1, rank + 1)) for column in range(rank + 1)]
    grid = columns[rank]
    for column, axis in enumerate(reversed(range(rank))):
        places = _places(op, extents[axis], theta.dtype, align_corners)
        spread = unsqueezed(op, places, [0, *(other + 1 for other in range(rank) if other != axis), rank + 1])
        grid = compute(op, "Add", compute(op, "Mul", columns[column], spread), grid)
    return grid


def _places(op: Builder, extent: Any, dtype: torch.dtype, align_corners: bool) -> Tensor:
    """Return the coordinates of an axis between -1 and 1, and 0 for a single element."""
    last = op.Sub(extent, 1) if isinstance(extent, Tensor) else extent - 1
    doubled = op.Mul(arange_of(op, 0, extent, 1, torch.int64), 2)
    length = compute(op, "Max", op.cast(op.constant(last), dtype), 1.0) if align_corners else op.cast(op.constant(extent), dtype)
    return compute(op, "Div", op.cast(op.Sub(doubled, last), dtype), length)
