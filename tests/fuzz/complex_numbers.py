"""Statements on complex numbers: transforms, pairs of reals, products, magnitudes."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all, number

_MADE = (
    "torch.fft.fft({x})",
    "torch.fft.rfft({x}, dim={d})",
    "torch.view_as_complex(torch.stack([{x}, {x} * 2], -1))",
    "torch.complex({x}, {x}.flip(0))",
    "torch.polar({x}.abs(), {x})",
    "torch.fft.fft2({x})",
    "torch.fft.ifft({x}, dim={d})",
    "torch.view_as_complex({x}.flatten()[: {x}.numel() // 2 * 2].reshape(-1, 2))",
    "{x} + 1j",
    "{x} * 2j",
    "torch.fft.fftshift(torch.fft.fft({x}))",
    "{x}.to(torch.complex64)",
    "torch.fft.rfftn({x})",
    "torch.fft.fft({x}, norm='ortho')",
    "torch.polar(torch.ones_like({x}), {x})",
)
_REAL = (
    "{z}.abs()",
    "{z}.real",
    "{z}.imag",
    "torch.view_as_real({z})",
    "({z} + (2 + 1j)).angle()",
    "({z} * {z}.conj()).real",
    "{z}.abs().square().sum({d})",
    "torch.fft.ifft({z}).real",
    "torch.fft.irfft({z}, dim={d})",
    "torch.view_as_real({z}).flatten(-2)",
    "torch.view_as_real({z} * (0.5 + 0.5j)).sum(-1)",
    "torch.fft.irfft({z}, n={z}.shape[-1])",
    "{z}.real * 2 + {z}.imag",
    "({z} == {z}.conj())",
    "torch.angle({z} * 0 + 1j)",
    "{z}.sum({d}).abs()",
)
_COMPLEX = (
    "{z} * {z}",
    "{z} + {z}.conj()",
    "{z} * (1 + 2j)",
    "{z}.flip(0)",
    "{z}[..., :1] * {z}",
    "{z}.reshape(-1)",
    "{z}.unsqueeze(0)",
    "torch.cat([{z}, {z}], {d})",
    "{z}.transpose(0, -1)",
    "-{z} / 2",
    "{z}.sum({d}, keepdim=True)",
    "torch.fft.ifft({z})",
    "{z} @ {z}.mT",
    "torch.where({z}.real > 0, {z}, {z}.conj())",
    "({z} / 4).exp()",
    "{z} * {z}.abs()",
    "{z}[0]",
    "torch.stack([{z}, {z} * 1j])",
    "{z}.conj().resolve_conj()",
    "torch.fft.fftshift({z}, dim={d})",
)


def complex_made(s: Scope) -> str:
    x = s.tensor(is_all(at_least(1), floating if s.chance(0.95) else number, lambda value: value.element_size() >= 4))
    return f"{s.new()} = {s.choice(_MADE).format(x=x, d=s.dim(x))}"


def complex_used(s: Scope) -> str:
    """Write a real or complex result of complex numbers."""
    z = s.complex_tensor(at_least(1))
    return f"{s.new()} = {s.choice(_REAL if s.chance(0.6) else _COMPLEX).format(z=z, d=s.dim(z))}"
