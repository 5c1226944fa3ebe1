"""Image sampling at given positions, and affine grids of positions."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.kernel_dtypes import running_dtype
from onnxexp_aten.support.tensor_sizes import sizes_of
from onnxexp_aten.support.view_nodes import permuted, reshaped

__all__ = ["table"]

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
        return op.AffineGrid(theta, op.constant(size, torch.int64), align_corners=int(align_corners))
    identity = torch.eye(len(spatial), len(spatial) + 1, dtype=torch.float64)[None]
    places = torch.affine_grid_generator(identity, [1, 1, *spatial], align_corners).reshape(-1, len(spatial))
    homogeneous = torch.cat([places, torch.ones(len(places), 1, dtype=torch.float64)], 1)
    grid = op.MatMul(op.constant(homogeneous, theta.dtype), permuted(op, theta, [0, 2, 1]))
    return reshaped(op, grid, sizes)
