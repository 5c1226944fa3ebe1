"""Discrete Fourier transforms as matrix products, one axis at a time.

The matrices are constants where the lengths are known at export. Otherwise the graph computes them.

ONNX has the operator DFT from opset 17 on. ONNX Runtime's kernel loses half of the digits where the length is not a power of
two. Source of the two-step algorithm: Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series"
(1965).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from onnxexp import Builder, ComplexTensor, SymbolicTable, Tensor
from onnxexp_aten.complex.complex_numbers import mul, paired, real_of
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import floor_remainder
from onnxexp_aten.shape.flip_roll_unfold import window_starts
from onnxexp_aten.support.axis_products import multiply_axis
from onnxexp_aten.support.kernel_dtypes import targets_plain_onnx
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, with_shape
from onnxexp_aten.support.view_nodes import reshaped, sliced, swapped

table = SymbolicTable("aten")
complex_table = SymbolicTable("aten")

Parts: TypeAlias = list[Tensor]
"""A real tensor, or the real and imaginary parts of a complex tensor."""

_SHORT = 64
"""Longest axis that one product transforms.

Beyond it, two smaller products take less work and smaller constants.
"""


def _scale(op: Builder, mode: int, size: Any) -> Any:
    """Compute the scale factor of a torch normalization mode: 1, 1/sqrt(n) or 1/n."""
    if isinstance(size, Tensor):
        wide = op.cast(size, torch.float64)
        return (1.0, op.Reciprocal(op.Sqrt(wide)), op.Reciprocal(wide))[mode]
    return (1.0, 1 / math.sqrt(size), 1 / size)[mode]


def _angles(rows: int, columns: int, period: int) -> torch.Tensor:
    """Compute the angles 2 pi j k / period.

    The product is reduced modulo the period before the division, which keeps its digits.
    """
    turns = torch.arange(rows, dtype=torch.int64)[:, None] * torch.arange(columns, dtype=torch.int64)
    return (turns % period).double() * (2 * math.pi / period)


def _angles_of(op: Builder, rows: Any, columns: Any, period: Tensor) -> Tensor:
    """Compute the angles of `_angles` as float64[rows, columns] at run time."""
    down, right = (arange_of(op, 0, count, 1, torch.int64) for count in (rows, columns))
    turns = floor_remainder(op, op.Mul(op.Unsqueeze(down, [1]), right), period)
    return op.Mul(op.cast(turns, torch.float64), op.Div(2 * math.pi, op.cast(period, torch.float64)))


def _factor(length: int) -> int:
    """Return the largest divisor up to the square root, which is 1 for a prime."""
    return next(divisor for divisor in range(math.isqrt(length), 0, -1) if length % divisor == 0)


def _in_steps(op: Builder, length: Any) -> bool:
    """Return whether a transform of this length takes several steps."""
    return targets_plain_onnx(op, since=17) or (isinstance(length, int) and length > _SHORT and _factor(length) > 1)


def _waves(
    op: Builder, dtype: torch.dtype, sizes: Sequence[Any], period: Any, scale: Any, parts: tuple[int, int], *, forward: bool
) -> Tensor:
    """Return the DFT matrix of exp(-i angle), or of exp(i angle) for the inverse.

    The matrix is a constant where the period is known at export.

    Args:
        parts: Number of parts of the input (1 for a real one) and of the output. The imaginary part follows the real part.
    """
    rows, columns = sizes
    waves: Any  # torch tensors and functions where the period is static, else Tensors and operators
    multiply: Any
    join: Any
    if isinstance(period, int):
        angles = _angles(rows, columns, period)
        waves, multiply, join = (angles.cos(), angles.sin()), torch.mul, torch.cat
    else:
        turned = _angles_of(op, rows, columns, period)
        waves, multiply = (op.Sin(op.Add(turned, math.pi / 2)), op.Sin(turned)), op.Mul
        join = functools.partial(_joined, op)
    cosine, sine = (multiply(wave, scale) for wave in waves)
    against = multiply(sine, -1.0)
    sine, against = (against, sine) if forward else (sine, against)
    blocks = [join(row[: parts[1]], 1) for row in ((cosine, sine), (against, cosine))[: parts[0]]]
    return op.cast(join(blocks, 0), dtype)


def _joined(op: Builder, pieces: Sequence[Tensor], axis: int) -> Tensor:
    return pieces[0] if len(pieces) == 1 else op.Concat(*pieces, axis=axis)


def _times(op: Builder, z: Parts, waves: Tensor, axis: int, count: Any) -> Parts:
    """Multiply one axis by a DFT matrix and split the result into its parts.

    `count` is the size of the axis in the result.
    """
    sizes = list(z[0].shape or ())
    both = multiply_axis(op, _joined(op, z, axis), waves, axis)
    halves = op.Split(both, axis=axis, outputs=2)
    if isinstance(count, int):
        sizes[axis] = count
        halves = [with_shape(half, sizes) for half in halves]
    return list(halves)


def _along(op: Builder, z: Parts, axis: int, *, forward: bool, mode: int) -> Parts:
    """Transform one axis, in two steps where a long length is composite."""
    length, dtype = size_at(op, z[0], axis), z[0].dtype
    scale = _scale(op, mode, length)
    if targets_plain_onnx(op, since=17):
        whole = op.DFT(_complex(op, z).view_as_real(), axis=axis, inverse=0 if forward else 1)
        factor = op.cast(scale if forward else op.Mul(op.constant(length, torch.float64), scale), dtype)
        return _parts(op, ComplexTensor.view_as_complex(op.Mul(whole, factor)))
    if not _in_steps(op, length):
        waves = _waves(op, dtype, (length, length), length, scale, (len(z), 2), forward=forward)
        return _times(op, z, waves, axis, length)
    assert isinstance(length, int)
    rows = _factor(length)
    columns = length // rows
    split = _along(op, _reshaped(op, z, axis, 1, [rows, columns]), axis, forward=forward, mode=0)
    angles = _angles(rows, columns, length).reshape([rows, columns, *[1] * (rank_of(op, z[0]) - axis - 1)])
    twiddles = torch.polar(torch.full_like(angles, scale), -angles if forward else angles)
    wave = ComplexTensor(op.cast(twiddles.real, dtype), op.cast(twiddles.imag, dtype))
    turned = _along(op, _parts(op, mul(op, ComplexTensor(*split), wave)), axis + 1, forward=forward, mode=0)
    return _reshaped(op, [swapped(op, part, axis, axis + 1) for part in turned], axis, 2, [length])


def _reshaped(op: Builder, z: Parts, axis: int, count: int, sizes: list[int]) -> Parts:
    """Replace `count` axes, beginning with `axis`, by axes of these sizes."""
    shape = z[0].shape or ()
    return [reshaped(op, part, [*shape[:axis], *sizes, *shape[axis + count :]]) for part in z]


def _axes(op: Builder, x: Tensor, dims: Sequence[int]) -> list[int]:
    rank = rank_of(op, x)
    return [dim % rank for dim in dims]


def _parts(op: Builder, x: Tensor) -> Parts:
    if not isinstance(x, ComplexTensor) and not x.dtype.is_complex:
        return [op.cast(x, real_of(op))]
    z = paired(op, x, real_of(op))
    return [z.real, z.imag]


def _complex(op: Builder, z: Parts) -> ComplexTensor:
    return ComplexTensor(*z) if len(z) == 2 else paired(op, z[0], z[0].dtype)


@complex_table("_fft_c2c")
def fft_c2c(op: Builder, self: Tensor, dim: list[int], normalization: int, forward: bool) -> ComplexTensor:
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    return _complex(op, _each(op, _parts(op, self), _axes(op, self, dim), normalization, forward=forward))


def _each(op: Builder, z: Parts, axes: Sequence[int], mode: int, *, forward: bool) -> Parts:
    for axis in axes:
        z = _along(op, z, axis, forward=forward, mode=mode)
    return z


@complex_table("_fft_r2c")
def fft_r2c(op: Builder, self: Tensor, dim: list[int], normalization: int, onesided: bool) -> ComplexTensor:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    transform = _onesided if onesided else _each
    return _complex(op, transform(op, [self], _axes(op, self, dim), normalization, forward=True))


def _onesided(op: Builder, x: Parts, axes: Sequence[int], mode: int, *, forward: bool) -> Parts:
    *others, last = axes
    length = size_at(op, x[0], last)
    kept = _half(op, length)
    if _in_steps(op, length):
        z = [_shortened(op, part, last, kept) for part in _along(op, x, last, forward=forward, mode=mode)]
    else:
        waves = _waves(op, x[0].dtype, (length, kept), length, _scale(op, mode, length), (1, 2), forward=forward)
        z = _times(op, x, waves, last, kept)
    return _each(op, z, others, mode, forward=forward)


@complex_table("_fft_c2r")
def fft_c2r(op: Builder, self: Tensor, dim: list[int], normalization: int, last_dim_size: Any) -> Tensor:
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    return _to_real(op, _parts(op, self), _axes(op, self, dim), normalization, last_dim_size, forward=False)


def _to_real(op: Builder, z: Parts, axes: Sequence[int], mode: int, length: Any, *, forward: bool) -> Tensor:
    *others, last = axes
    z = _each(op, z, others, mode, forward=forward)
    kept = _half(op, length)
    if not isinstance(kept, int) or size_at(op, z[0], last) != kept:
        z = [_shortened(op, part, last, kept) for part in z]
    if isinstance(length, int) and _in_steps(op, length):
        return _along(op, _both_halves(op, z, last, length), last, forward=forward, mode=mode)[0]
    scale = _scale(op, mode, length)
    if isinstance(length, int):
        scale *= torch.tensor([[1.0 + (0 < 2 * place < length)] for place in range(kept)], dtype=torch.float64)
    else:
        scale = op.Mul(_weights(op, kept, length), scale)
    waves = _waves(op, z[0].dtype, (kept, length), length, scale, (len(z), 1), forward=forward)
    return multiply_axis(op, _joined(op, z, last), waves, last)


def _half(op: Builder, length: Any) -> Any:
    """Count the coefficients that determine the spectrum of a real signal."""
    return op.Add(op.Div(length, 2), 1) if isinstance(length, Tensor) else length // 2 + 1


def _weights(op: Builder, kept: Any, length: Any) -> Tensor:
    """Return the weights of an inverse transform's coefficients, float64[kept, 1].

    A coefficient that also stands for its conjugate counts twice.
    """
    places = op.Unsqueeze(arange_of(op, 0, kept, 1, torch.int64), [1])
    twice = op.And(op.Greater(places, 0), op.Less(op.Mul(places, 2), length))
    return op.Where(twice, *(op.constant(weight, torch.float64) for weight in (2.0, 1.0)))


def _shortened(op: Builder, x: Tensor, axis: int, kept: Any) -> Tensor:
    part = sliced(op, x, axis, 0, kept)
    sizes = [kept if place == axis else size for place, size in enumerate(x.shape or ())]
    return with_shape(part, sizes) if isinstance(kept, int) else part


def _both_halves(op: Builder, z: Parts, axis: int, length: int) -> Parts:
    """Complete the spectrum of a real signal with the conjugates left out.

    Coefficients that equal their own conjugates become real.
    """
    mirrored = op.constant(torch.arange(length - length // 2 - 1, 0, -1))
    signs = torch.ones(length // 2 + 1)
    signs[0] = 0
    if length % 2 == 0:
        signs[-1] = 0
    own = op.constant(signs.to(z[0].dtype).reshape([-1 if place == axis else 1 for place in range(rank_of(op, z[0]))]))
    halves = [[part, op.Gather(part, mirrored, axis=axis)] for part in z]
    for imag in halves[1:]:
        imag[:] = op.Mul(imag[0], own), op.Neg(imag[1])
    sizes = list(z[0].shape or ())
    sizes[axis] = length
    return [with_shape(op.Concat(*pair, axis=axis), sizes) for pair in halves]


# Operators of torch.fft


def _mode(norm: str | None, *, forward: bool) -> int:
    return 1 if norm == "ortho" else 2 if (norm == "forward") == forward else 0


def fitted(op: Builder, x: Tensor, axis: int, wanted: Any) -> Tensor:
    """Crop an axis, or pad it with zeros, to this size."""
    size, before = size_at(op, x, axis), [0, 0] * (rank_of(op, x) - 1 - axis)
    if wanted is None or size is wanted or size == wanted:
        return x
    if isinstance(size, int) and isinstance(wanted, int):
        if wanted < size:
            return _shortened(op, x, axis, wanted)
        pads = [*before, 0, wanted - size]
    else:
        pads = [*before, 0, op.Sub(op.constant(wanted, torch.int64), size)]
    return op.torch_op("aten::constant_pad_nd", x, pads, 0.0)[0]


def _fitted_parts(op: Builder, x: Tensor, axes: Sequence[int], sizes: Sequence[Any]) -> Parts:
    """Split a tensor into parts, cropped or padded to these sizes."""
    z = _parts(op, x)
    for axis, wanted in zip(axes, sizes, strict=True):
        z = [fitted(op, part, axis, wanted) for part in z]
    return z


def _sized(op: Builder, x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[Any]]:
    """Return the axes and their new sizes (None: unchanged) from torch's arguments.

    The operators take one axis, several, or none.
    """
    s, dim = (value if value is None or isinstance(value, list) else [value] for value in (s, dim))
    rank = rank_of(op, x)
    axes = _axes(op, x, dim if dim is not None else range(rank - len(s), rank) if s is not None else range(rank))
    return axes, [None] * len(axes) if s is None else [None if isinstance(size, int) and size == -1 else size for size in s]


def _transform(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None, *, forward: bool, onesided: bool) -> ComplexTensor:
    axes, sizes = _sized(op, self, s, dim)
    z, transform = _fitted_parts(op, self, axes, sizes), _onesided if onesided else _each
    return _complex(op, transform(op, z, axes, _mode(norm, forward=forward), forward=forward))


def _real(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None, *, forward: bool) -> Tensor:
    """Compute the real signal from one half of its Hermitian spectrum."""
    axes, sizes = _sized(op, self, s, dim)
    length = sizes[-1]
    if length is None:
        before = size_at(op, self, axes[-1])
        length = 2 * (before - 1) if isinstance(before, int) else op.Mul(op.Sub(before, 1), 2)
    z = _fitted_parts(op, self, axes, [*sizes[:-1], _half(op, length)])
    return _to_real(op, z, axes, _mode(norm, forward=forward), length, forward=forward)


for _ending in ("", "2", "n"):
    complex_table(f"fft_fft{_ending}")(functools.partial(_transform, forward=True, onesided=False))
    complex_table(f"fft_ifft{_ending}")(functools.partial(_transform, forward=False, onesided=False))
    complex_table(f"fft_rfft{_ending}")(functools.partial(_transform, forward=True, onesided=True))
    complex_table(f"fft_ihfft{_ending}")(functools.partial(_transform, forward=False, onesided=True))


@complex_table("fft_irfft")
@table("fft_irfft")
def fft_irfft(op: Builder, self: Tensor, n: Any, dim: int, norm: str | None) -> Tensor:
    """fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return _real(op, self, n, dim, norm, forward=False)


@complex_table("fft_irfft2", "fft_irfftn")
@table("fft_irfft2", "fft_irfftn")
def fft_irfftn(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    """fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return _real(op, self, s, dim, norm, forward=False)


@complex_table("fft_hfft")
@table("fft_hfft")
def fft_hfft(op: Builder, self: Tensor, n: Any, dim: int, norm: str | None) -> Tensor:
    """fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return _real(op, self, n, dim, norm, forward=True)


@complex_table("fft_hfft2", "fft_hfftn")
@table("fft_hfft2", "fft_hfftn")
def fft_hfftn(op: Builder, self: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    """fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return _real(op, self, s, dim, norm, forward=True)


@complex_table("stft")
@table("stft")
def stft(op: Builder, self: Tensor, n_fft: int, hop_length: Any, win_length: Any, window: Tensor | None, *rest: Any) -> Tensor:
    """stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False,
    bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor"""
    *center, normalized, onesided, return_complex, align_to_window = rest
    if align_to_window or any(center[:1]) or (window is not None and window.dtype.is_complex):
        op.decline("aligned or centered frames and complex windows are not supported")
    x, axis = _parts(op, self), rank_of(op, self) - 1
    rows = _in_steps(op, n_fft)  # several products are fastest along the last axis; a single one can put the frequencies first
    starts = op.Unsqueeze(window_starts(op, x[0], axis, n_fft, hop_length or n_fft // 4), axes=[int(rows)])
    frame = torch.arange(n_fft) if rows else torch.arange(n_fft)[:, None]
    z = [op.Gather(part, op.Add(starts, op.constant(frame)), axis=axis) for part in x]
    shape = frame_window(op, window, n_fft, win_length or n_fft, x[0].dtype)
    if shape is not None:
        z = [op.Mul(part, shape if rows else op.Unsqueeze(shape, axes=[1])) for part in z]
    transform = _onesided if (len(x) == 1 if onesided is None else onesided) else _each
    z = transform(op, z, [axis + rows], int(normalized), forward=True)
    whole = _complex(op, [swapped(op, part, axis, axis + 1) for part in z] if rows else z)
    return whole if return_complex else whole.view_as_real()


def frame_window(op: Builder, window: Tensor | None, size: int, length: int, dtype: torch.dtype) -> Tensor | None:
    """Center the window among zeros, or return None for a window of ones."""
    if window is None and length == size:
        return None
    column = op.constant(torch.ones(length, dtype=dtype)) if window is None else op.cast(window, dtype)
    if length < size:
        left = (size - length) // 2
        column = op.torch_op("aten::constant_pad_nd", column, [left, size - length - left], 0.0)[0]
    return column
