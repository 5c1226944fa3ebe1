"""Discrete Fourier transforms, one axis after the other, as products with matrices, which every opset has. The matrices are
constants where the lengths are known at export, else made at run time.

ONNX has an operator DFT from opset 17 on; ONNX Runtime's kernel of it loses half of the digits where the length is no power of
two. Source of the two steps: Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series" (1965).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, ComplexTensor, Tensor
from onnxexp_aten.axiswise import along
from onnxexp_aten.common import rank_of
from onnxexp_aten.complexes import complex_op, paired, real_of
from onnxexp_aten.creation import arange_of
from onnxexp_aten.elementwise import floor_remainder
from onnxexp_aten.kernels import compute, specified
from onnxexp_aten.layout import reshaped, size_at, sliced, swapped, with_shape

__all__: list[str] = []

_SHORT = 64
"""Up to this length one product does; beyond, two smaller ones are less work and need smaller constants."""


def _scale(op: Builder, mode: int, size: Any) -> Any:
    """torch's normalization: none, by the root of the size, by the size."""
    if isinstance(size, Tensor):
        wide = op.cast(size, torch.float64)
        return (1.0, op.Reciprocal(op.Sqrt(wide)), op.Reciprocal(wide))[mode]
    return (1.0, 1 / math.sqrt(size), 1 / size)[mode]


def _angles(rows: int, columns: int, period: int) -> torch.Tensor:
    """2 pi j k / period; the product is reduced before the division, so that nothing is lost."""
    turns = torch.arange(rows, dtype=torch.int64)[:, None] * torch.arange(columns, dtype=torch.int64)
    return (turns % period).double() * (2 * math.pi / period)


def _angles_of(op: Builder, rows: Any, columns: Any, period: Tensor) -> Tensor:
    """The same, float64[rows, columns], for sizes that only the run time knows."""
    down, right = (arange_of(op, 0, count, 1, torch.int64) for count in (rows, columns))
    turns = floor_remainder(op, op.Mul(op.Unsqueeze(down, [1]), right), period)
    return op.Mul(op.cast(turns, torch.float64), op.Div(2 * math.pi, op.cast(period, torch.float64)))  # type: ignore[no-any-return]


def _factor(length: int) -> int:
    """The largest divisor up to the root; 1 where there is none."""
    return next(divisor for divisor in range(math.isqrt(length), 0, -1) if length % divisor == 0)


def _in_steps(op: Builder, length: Any) -> bool:
    """Is it more than one product?"""
    return specified(op, since=17) or (isinstance(length, int) and length > _SHORT and _factor(length) > 1)


def _waves(
    op: Builder, dtype: torch.dtype, sizes: Sequence[Any], period: Any, scale: Any, *, forward: bool
) -> tuple[Tensor, Tensor]:
    """The cosines and sines of exp(-i angle), or of exp(i angle) on the way back, of this size; constants where it is known."""
    sign = -1.0 if forward else 1.0
    if isinstance(period, int):
        angles = _angles(sizes[0], sizes[1], period)
        return op.constant((angles.cos() * scale).to(dtype)), op.constant((angles.sin() * (sign * scale)).to(dtype))
    turned = _angles_of(op, *sizes, period)
    cosine, sine = op.Mul(compute(op, "Cos", turned), scale), op.Mul(op.Mul(compute(op, "Sin", turned), sign), scale)
    return op.cast(cosine, dtype), op.cast(sine, dtype)


def _times(
    op: Builder, z: ComplexTensor, cosine: Tensor, sine: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> ComplexTensor:
    real = op.Sub(multiply(z.real, cosine), multiply(z.imag, sine))
    return ComplexTensor(real, op.Add(multiply(z.real, sine), multiply(z.imag, cosine)))


def _along(op: Builder, z: ComplexTensor, axis: int, *, forward: bool, mode: int) -> ComplexTensor:
    """The transform along one axis; a long one whose length is a product is done in two steps (Cooley and Tukey)."""
    length, dtype = size_at(op, z.real, axis), z.real.dtype
    scale = _scale(op, mode, length)
    if specified(op, since=17):
        whole = op.DFT(z.joined(), axis=axis, inverse=0 if forward else 1)
        factor = op.cast(scale if forward else op.Mul(op.constant(length, torch.float64), scale), dtype)
        return ComplexTensor.parted(op.Mul(whole, factor))
    if not _in_steps(op, length):
        waves = _waves(op, dtype, (length, length), length, scale, forward=forward)
        return _times(op, z, *waves, lambda part, wave: along(op, part, wave, axis))
    assert isinstance(length, int)
    rows = _factor(length)
    columns = length // rows
    split = _reshaped(op, z, axis, 1, [rows, columns])
    split = _along(op, split, axis, forward=forward, mode=0)
    behind = [1] * (rank_of(op, z.real) - axis - 1)
    waves = _waves(op, dtype, (rows, columns), length, scale, forward=forward)
    cosine, sine = (op.Reshape(wave, [rows, columns, *behind]) for wave in waves)
    split = _times(op, split, cosine, sine, lambda part, wave: op.Mul(part, wave))
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
    length = size_at(op, self, last)
    kept = _half(op, length) if onesided else length
    if _in_steps(op, length):
        z = _along(op, paired(op, self, self.dtype), last, forward=True, mode=normalization)
        z = _cut(op, z, last, kept) if onesided else z
    else:
        waves = _waves(op, self.dtype, (length, kept), length, _scale(op, normalization, length), forward=True)
        z = ComplexTensor(*(along(op, self, wave, last) for wave in waves))
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
    length = last_dim_size
    kept = _half(op, length)
    z = z if isinstance(kept, int) and size_at(op, z.real, last) == kept else _cut(op, z, last, kept)
    if isinstance(length, int) and _in_steps(op, length):
        return _along(op, _both_halves(op, z, last, length), last, forward=False, mode=normalization).real
    scale = _scale(op, normalization, length)
    if isinstance(length, int):
        twice = [0 < 2 * place < length for place in range(kept)]
        scale = torch.tensor(twice, dtype=torch.float64)[:, None].add(1) * scale
        cosine, sine = _waves(op, z.real.dtype, (kept, length), length, scale, forward=False)
    else:
        waves = _waves(op, z.real.dtype, (kept, length), length, scale, forward=False)
        cosine, sine = (op.Mul(wave, _weights(op, kept, length, z.real.dtype)) for wave in waves)
    return op.Sub(along(op, z.real, cosine, last), along(op, z.imag, sine, last))  # type: ignore[no-any-return]


def _half(op: Builder, length: Any) -> Any:
    """How much of the spectrum of a real signal says all of it."""
    return op.Add(op.Div(length, 2), 1) if isinstance(length, Tensor) else length // 2 + 1


def _weights(op: Builder, kept: Any, length: Any, dtype: torch.dtype) -> Tensor:
    """``[kept, 1]``: 2 where a coefficient stands for its conjugate, too, 1 where it is its own."""
    places = op.Unsqueeze(arange_of(op, 0, kept, 1, torch.int64), [1])
    twice = op.And(op.Greater(places, 0), op.Less(op.Mul(places, 2), length))
    return op.Where(twice, op.constant(2.0, dtype), op.constant(1.0, dtype))  # type: ignore[no-any-return]


def _cut(op: Builder, z: ComplexTensor, axis: int, kept: Any) -> ComplexTensor:
    return ComplexTensor(*(_shortened(op, part, axis, kept) for part in (z.real, z.imag)))


def _shortened(op: Builder, x: Tensor, axis: int, kept: Any) -> Tensor:
    part = sliced(op, x, axis, 0, kept)
    sizes = [kept if place == axis else size for place, size in enumerate(x.shape or ())]
    return with_shape(part, sizes) if isinstance(kept, int) else part


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


# By torch's own names


def _mode(norm: str | None, *, forward: bool) -> int:
    return 1 if norm == "ortho" else 2 if (norm == "forward") == forward else 0


def _fitted(op: Builder, x: Tensor, axis: int, wanted: int | None) -> Tensor:
    """Cut, or filled up with zeros, to this size."""
    size = size_at(op, x, axis)
    if wanted is None or size == wanted:
        return x
    if not isinstance(size, int) or not isinstance(wanted, int):
        op.decline("sizes that only the run time knows")
    if wanted < size:
        return _shortened(op, x, axis, wanted)
    pads = [0, 0] * (rank_of(op, x) - 1 - axis) + [0, wanted - size]
    return op.torch_op("aten::constant_pad_nd", x, pads, 0.0)[0]  # type: ignore[no-any-return]


def _parted(op: Builder, x: Tensor, axes: Sequence[int], sizes: Sequence[int | None]) -> Tensor:
    """A real tensor in the dtype of the transform, or a complex one, of these sizes."""
    if isinstance(x, ComplexTensor) or x.dtype.is_complex:
        z = paired(op, x)
        parts = [z.real, z.imag]
    else:
        parts = [op.cast(x, real_of(op))]
    for axis, wanted in zip(axes, sizes, strict=True):
        parts = [_fitted(op, part, axis, wanted) for part in parts]
    return parts[0] if len(parts) == 1 else ComplexTensor(*parts)


def _sized(op: Builder, x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int | None]]:
    """The axes and their new sizes (None: as it is) from either sort of arguments: of one axis, or of several."""
    s, dim = (value if value is None or isinstance(value, list) else [value] for value in (s, dim))
    rank = rank_of(op, x)
    axes = _axes(op, x, dim if dim is not None else range(rank - len(s), rank) if s is not None else range(rank))
    return axes, [None] * len(axes) if s is None else [None if size == -1 else size for size in s]


def _conjugate(op: Builder, z: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(z.real, op.Neg(z.imag))


def _transform(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None, *, forward: bool, onesided: bool) -> ComplexTensor:
    axes, sizes = _sized(op, self, s, dim)
    x, mode = _parted(op, self, axes, sizes), _mode(norm, forward=forward)
    if isinstance(x, ComplexTensor):
        return fft_c2c(op, x, axes, mode, forward)  # type: ignore[no-any-return]
    z = fft_r2c(op, x, axes, mode, onesided)
    return z if forward else _conjugate(op, z)


def _real(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None, *, forward: bool) -> Tensor:
    """What half of a spectrum that is its own conjugate mirrored gives."""
    axes, sizes = _sized(op, self, s, dim)
    before = size_at(op, self, axes[-1])
    if isinstance(before, Tensor):
        op.decline("sizes that only the run time knows")
    length = 2 * (before - 1) if sizes[-1] is None else sizes[-1]
    if not isinstance(length, int):
        op.decline("sizes that only the run time knows")
    z = _parted(op, paired(op, self), axes, [*sizes[:-1], _half(op, length)])
    assert isinstance(z, ComplexTensor)
    z = _conjugate(op, z) if forward else z
    return fft_c2r(op, z, axes, _mode(norm, forward=forward), length)  # type: ignore[no-any-return]


for _ending in ("", "2", "n"):
    complex_op(f"fft_fft{_ending}")(functools.partial(_transform, forward=True, onesided=False))
    complex_op(f"fft_ifft{_ending}")(functools.partial(_transform, forward=False, onesided=False))
    complex_op(f"fft_rfft{_ending}")(functools.partial(_transform, forward=True, onesided=True))
    complex_op(f"fft_ihfft{_ending}")(functools.partial(_transform, forward=False, onesided=True))
    complex_op(f"fft_irfft{_ending}")(functools.partial(_real, forward=False))
    complex_op(f"fft_hfft{_ending}")(functools.partial(_real, forward=True))
