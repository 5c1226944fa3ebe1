"""torch.fft.fftshift and ifftshift, as rolls."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.shape.flip_roll_unfold import roll
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at

table = SymbolicTable("aten")


@table("fft_fftshift")
def fft_fftshift(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor"""
    return _shifted(op, self, dim, forward=True)


@table("fft_ifftshift")
def fft_ifftshift(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor"""
    return _shifted(op, self, dim, forward=False)


def _shifted(op: Builder, x: Tensor, dim: Any, *, forward: bool) -> Tensor:
    """Roll each axis by half of its size, forward or back."""
    rank = rank_of(op, x)
    dims = range(rank) if dim is None else dim if isinstance(dim, list) else [dim]
    axes = [axis % rank for axis in dims]
    halves: list[Any] = []
    for size in (size_at(op, x, axis) for axis in axes):
        half = size // 2 if isinstance(size, int) else op.Div(size, 2)
        halves.append(half if forward else op.Neg(half) if isinstance(half, Tensor) else -half)
    return roll(op, x, halves, axes)
