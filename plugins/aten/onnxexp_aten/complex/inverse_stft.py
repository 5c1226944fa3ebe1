"""The inverse of the short-time Fourier transform, as one transposed convolution.

Its kernel is the inverse transform of a frame times the window; the convolution adds the frames where they overlap.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.complex.complex_numbers import paired, real_of
from onnxexp_aten.complex.fourier import fitted, frame_window
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import sliced

complex_table = SymbolicTable("aten")
_END = 2**62


@complex_table("istft")
def istft(
    op: Builder, self: Tensor, n_fft: int, hop_length: Any, win_length: Any, window: Tensor | None, center: bool, *rest: Any
) -> Tensor:
    """istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True,
    bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor"""
    normalized, onesided, length, return_complex = rest
    if return_complex or onesided is False or (window is not None and window.dtype.is_complex):
        op.decline("complex signals and windows are not supported")
    z, dtype, batched = paired(op, self, real_of(op)), real_of(op), rank_of(op, self) == 3
    parts = [part if batched else op.Unsqueeze(part, axes=[0]) for part in (z.real, z.imag)]
    shape = frame_window(op, window, n_fft, win_length or n_fft, dtype)
    shape = op.constant(torch.ones(n_fft, dtype=dtype)) if shape is None else shape
    kernel = op.Mul(op.constant(_inverse_transform(n_fft, normalized).to(dtype)), shape)
    ones = op.Expand(op.constant(torch.ones(1, 1, 1, dtype=dtype)), [1, 1, size_at(op, parts[0], 2)])
    envelope = op.Unsqueeze(op.Mul(shape, shape), axes=[0, 1])
    hop, start = hop_length or n_fft // 4, n_fft // 2 if center else 0
    signal, weight = (
        sliced(op, _overlapped(op, frames, weights, hop), 2, start, -start if start and length is None else _END)
        for frames, weights in ((op.Concat(*parts, axis=1), kernel), (ones, envelope))
    )
    if length is not None:
        signal, weight = _cut(op, signal, length), _cut(op, weight, length)
    result = fitted(op, op.Div(signal, weight), 2, length)
    return op.Squeeze(result, axes=[1] if batched else [0, 1])


def _overlapped(op: Builder, frames: Tensor, weights: Tensor, hop: int) -> Tensor:
    return op.torch_op("aten::conv_transpose1d", frames, weights, None, [hop], [0], [0], 1, [1])[0]


def _cut(op: Builder, x: Tensor, length: Any) -> Tensor:
    """Drop the samples behind the length, where the window may be zero."""
    return sliced(op, x, 2, 0, length)


def _inverse_transform(size: int, normalized: bool) -> torch.Tensor:
    """Return the matrix from half of the frequencies to a frame.

    It is float64[2 * frequencies, 1, size], with the real parts first.
    """
    kept = torch.arange(size // 2 + 1)
    angles = (kept[:, None] * torch.arange(size) % size).double() * (2 * math.pi / size)
    twice = torch.where((kept == 0) | (2 * kept == size), 1.0, 2.0).double()[:, None]
    scale = twice / (math.sqrt(size) if normalized else size)
    return torch.cat([angles.cos() * scale, -angles.sin() * scale])[:, None]
