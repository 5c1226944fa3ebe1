"""Discrete Fourier transforms, one axis after the other, as products with constant matrices, which every opset has.

ONNX has an operator DFT from opset 17 on; ONNX Runtime's kernel of it loses half of the digits where the length is no power of
two. Source of the two steps: Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series" (1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, ComplexTensor, Tensor
from onnxexp_aten.axiswise import along
from onnxexp_aten.common import rank_of
from onnxexp_aten.complexes import complex_op, paired, real_of
from onnxexp_aten.kernels import specified
from onnxexp_aten.layout import reshaped, size_at, sliced, swapped, with_shape

__all__: list[str] = []

_SHORT = 64
"""Up to this length one product does; beyond, two smaller ones are less work and need smaller constants."""


def _scale(mode: int, size: int) -> float:
    """torch's normalization: none, by the root of the size, by the size."""
    return (1.0, 1 / math.sqrt(size), 1 / size)[mode]


def _angles(rows: int, columns: int, period: int) -> torch.Tensor:
    """2 pi j k / period; the product is reduced before the division, so that nothing is lost."""
    turns = torch.arange(rows, dtype=torch.int64)[:, None] * torch.arange(columns, dtype=torch.int64)
    return (turns % period).double() * (2 * math.pi / period)


def _length(op: Builder, x: Tensor, axis: int) -> int:
    size = size_at(op, x, axis)
    if isinstance(size, Tensor):
        raise op.error("the length of a Fourier transform must be known at export")
    return size


def _factor(length: int) -> int:
    """The largest divisor up to the root; 1 where there is none."""
    return next(divisor for divisor in range(math.isqrt(length), 0, -1) if length % divisor == 0)


def _in_steps(op: Builder, length: int) -> bool:
    """Is it more than one product?"""
    return specified(op, since=17) or (length > _SHORT and _factor(length) > 1)


def _waves(op: Builder, z: ComplexTensor, angles: torch.Tensor, scale: float, *, forward: bool) -> list[Tensor]:
    """Constants: the cosines and sines of exp(-i angle), or of exp(i angle) on the way back."""
    waves = angles.cos() * scale, angles.sin() * (-scale if forward else scale)
    return [op.constant(wave.to(z.real.dtype)) for wave in waves]


def _times(
    op: Builder, z: ComplexTensor, cosine: Tensor, sine: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> ComplexTensor:
    real = op.Sub(multiply(z.real, cosine), multiply(z.imag, sine))
    return ComplexTensor(real, op.Add(multiply(z.real, sine), multiply(z.imag, cosine)))


def _along(op: Builder, z: ComplexTensor, axis: int, *, forward: bool, mode: int) -> ComplexTensor:
    """The transform along one axis; a long one whose length is a product is done in two steps (Cooley and Tukey)."""
    length = _length(op, z.real, axis)
    scale = _scale(mode, length)
    if specified(op, since=17):
        whole = op.DFT(z.joined(), axis=axis, inverse=0 if forward else 1)
        return ComplexTensor.parted(op.Mul(whole, scale if forward else scale * length))
    rows = _factor(length)
    if length <= _SHORT or rows == 1:
        waves = _waves(op, z, _angles(length, length, length), scale, forward=forward)
        return _times(op, z, *waves, lambda part, wave: along(op, part, wave, axis))
    columns = length // rows
    split = _reshaped(op, z, axis, 1, [rows, columns])
    split = _along(op, split, axis, forward=forward, mode=0)
    behind = [1] * (rank_of(op, z.real) - axis - 1)
    twiddles = _waves(op, z, _angles(rows, columns, length).reshape(rows, columns, *behind), scale, forward=forward)
    split = _times(op, split, *twiddles, lambda part, wave: op.Mul(part, wave))
    split = _along(op, split, axis + 1, forward=forward, mode=0)
    turned = ComplexTensor(*(swapped(op, part, axis, axis + 1) for part in (split.real, split.imag)))
    return _reshaped(op, turned, axis, 2, [length])


def _reshaped(op: Builder, z: ComplexTensor, axis: int, count: int, sizes: list[int]) -> ComplexTensor:
    """`count` axes from one on replaced by axes of these sizes."""
    assert z.shape is not None
    wanted = [*z.shape[:axis], *sizes, *z.shape[axis + count :]]
    return ComplexTensor(*(reshaped(op, part, wanted) for part in (z.real, z.imag)))


def _axes(op: Builder, x: Tensor, dims: Sequence[int]) -> list[int]:
    rank = rank_of(op, x)
    return [dim % rank for dim in dims]


@complex_op("_fft_c2c")
def fft_c2c(op: Builder, self: Tensor, dim: list[int], normalization: int, forward: bool) -> ComplexTensor:
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    z = paired(op, self, real_of(op))
    for axis in _axes(op, self, dim):
        z = _along(op, z, axis, forward=forward, mode=normalization)
    return z


@complex_op("_fft_r2c")
def fft_r2c(op: Builder, self: Tensor, dim: list[int], normalization: int, onesided: bool) -> ComplexTensor:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    *others, last = _axes(op, self, dim)
    length = _length(op, self, last)
    kept = length // 2 + 1 if onesided else length
    if _in_steps(op, length):
        z = _along(op, paired(op, self, self.dtype), last, forward=True, mode=normalization)
        z = _cut(op, z, last, kept) if onesided else z
    else:
        angles, scale = _angles(length, kept, length), _scale(normalization, length)
        waves = (angles.cos() * scale, angles.sin() * -scale)
        z = ComplexTensor(*(along(op, self, op.constant(wave.to(self.dtype)), last) for wave in waves))
    for axis in others:
        z = _along(op, z, axis, forward=True, mode=normalization)
    return z


@complex_op("_fft_c2r")
def fft_c2r(op: Builder, self: Tensor, dim: list[int], normalization: int, last_dim_size: Any) -> Tensor:
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    z = paired(op, self)
    *others, last = _axes(op, self, dim)
    for axis in others:
        z = _along(op, z, axis, forward=False, mode=normalization)
    length = int(op.static(last_dim_size, "the length of a Fourier transform"))
    kept = length // 2 + 1
    z = z if _length(op, z.real, last) == kept else _cut(op, z, last, kept)
    if _in_steps(op, length):
        return _along(op, _both_halves(op, z, last, length), last, forward=False, mode=normalization).real
    angles, scale = _angles(kept, length, length), _scale(normalization, length)
    weights = torch.full((kept, 1), 2.0 * scale, dtype=torch.float64)  # each stands for its conjugate, too
    weights[0] = scale
    if length % 2 == 0:
        weights[-1] = scale
    cosine, sine = (op.constant((wave * weights).to(z.real.dtype)) for wave in (angles.cos(), angles.sin()))
    return op.Sub(along(op, z.real, cosine, last), along(op, z.imag, sine, last))  # type: ignore[no-any-return]


def _cut(op: Builder, z: ComplexTensor, axis: int, kept: int) -> ComplexTensor:
    sizes = list(z.shape or ())
    sizes[axis] = kept
    return ComplexTensor(*(with_shape(sliced(op, part, axis, 0, kept), sizes) for part in (z.real, z.imag)))


def _both_halves(op: Builder, z: ComplexTensor, axis: int, length: int) -> ComplexTensor:
    """The whole spectrum of a real signal: what was left out are conjugates. Those of their own conjugates are real."""
    mirrored = op.constant(torch.arange(length - length // 2 - 1, 0, -1))
    real = op.Concat(z.real, op.Gather(z.real, mirrored, axis=axis), axis=axis)
    signs = torch.ones(length // 2 + 1)
    signs[0] = 0
    if length % 2 == 0:
        signs[-1] = 0
    own = op.constant(signs.to(z.imag.dtype).reshape([-1 if place == axis else 1 for place in range(rank_of(op, z.imag))]))
    imag = op.Concat(op.Mul(z.imag, own), op.Neg(op.Gather(z.imag, mirrored, axis=axis)), axis=axis)
    sizes = list(z.shape or ())
    sizes[axis] = length
    return ComplexTensor(with_shape(real, sizes), with_shape(imag, sizes))
