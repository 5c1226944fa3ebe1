"""Pixel and channel shuffles."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector
from onnxexp_aten.support.view_nodes import squeezed, unsqueezed

table = SymbolicTable("aten")


@table("pixel_shuffle")
def pixel_shuffle(op: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    channels, height, width = _pixels(op, self)
    fewer = _over(op, channels, upscale_factor**2)
    flat = op.Reshape(self, vector(op, [_batch(op, self), fewer, upscale_factor, upscale_factor, height, width]))
    spread = op.Transpose(flat, perm=[0, 1, 4, 2, 5, 3])
    taller, wider = (_times(op, size, upscale_factor) for size in (height, width))
    return op.Reshape(spread, vector(op, [*_lead(op, self), fewer, taller, wider]))


@table("pixel_shuffle", since=11)
def pixel_shuffle_11(op: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor; DepthToSpace has modes from opset 11 on"""
    if rank_of(op, self) > 4 or not self.dtype.is_floating_point:
        return pixel_shuffle(op, self, upscale_factor)
    batch = unsqueezed(op, self, range(4 - rank_of(op, self)))
    shuffled = op.DepthToSpace(batch, blocksize=upscale_factor, mode="CRD")
    return squeezed(op, shuffled, range(4 - rank_of(op, self)))


@table("pixel_unshuffle")
def pixel_unshuffle(op: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    channels, height, width = _pixels(op, self)
    if self.rank == 4 and channels == 1 and self.dtype.is_floating_point:
        return op.SpaceToDepth(self, blocksize=downscale_factor)
    height, width = (_over(op, size, downscale_factor) for size in (height, width))
    flat = op.Reshape(self, vector(op, [_batch(op, self), channels, height, downscale_factor, width, downscale_factor]))
    spread = op.Transpose(flat, perm=[0, 1, 3, 5, 2, 4])
    return op.Reshape(spread, vector(op, [*_lead(op, self), _times(op, channels, downscale_factor**2), height, width]))


def _lead(op: Builder, x: Tensor) -> list[Any]:
    return [size_at(op, x, axis) for axis in range(rank_of(op, x) - 3)]


def _batch(op: Builder, x: Tensor) -> Any:
    """Return the number of images, or -1 where a Reshape infers it."""
    lead = _lead(op, x)
    return (lead or [1])[0] if len(lead) < 2 else -1


def _times(op: Builder, size: Any, factor: int) -> Any:
    return size * factor if isinstance(size, int) else op.Mul(size, factor)


def _over(op: Builder, size: Any, factor: int) -> Any:
    return size // factor if isinstance(size, int) else op.Div(size, factor)


def _pixels(op: Builder, x: Tensor) -> list[Any]:
    """Return channels, height and width."""
    return [size_at(op, x, axis) for axis in (-3, -2, -1)]


@table("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(op: Builder, self: Tensor, groups: Any) -> Tensor:
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    groups = op.static(groups, "groups")
    places = arange_of(op, 0, size_at(op, self, 1), 1, torch.int64)
    order = op.Reshape(op.Transpose(op.Reshape(places, [groups, -1]), perm=[1, 0]), [-1])
    return op.Gather(self, order, axis=1)
