"""complex/complex_numbers.py, complex/complex_lowering.py: pairs of real tensors."""

from __future__ import annotations

import torch
from torch import fft

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 17, 20)

X = torch.randn(3, 6, 5)
Z = torch.randn(3, 4, dtype=torch.complex64)
W = torch.randn(3, 4, dtype=torch.complex64)
M = torch.randn(4, 2, dtype=torch.complex64)
Results = tuple[torch.Tensor, ...]


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, rtol=2e-5, atol=2e-5, name=name or fn.__name__, **{"opsets": OPSETS, **options})


def arithmetic(a: torch.Tensor, b: torch.Tensor) -> Results:
    sums = a + b, a - b, a - 1, 2 - a, torch.add(a, b, alpha=2), a + 1j, b.real + a
    return (*sums, a * b, a * 2.5, a * b.imag, a / b, a / 2, 1 / a, a * (1 + 2j), a**2, -a)


def functions(a: torch.Tensor, b: torch.Tensor) -> Results:
    reals = a.abs(), a.angle(), a.real, a.imag, torch.view_as_real(a), a == b, a != a
    return (*reals, a.exp(), a.log(), a.sqrt(), a.sgn(), a.conj(), a**1.5, torch.where(a.real > 0, a, b), torch.zeros_like(a))


def rearranged(a: torch.Tensor, b: torch.Tensor, r: torch.Tensor) -> Results:
    pieces = a.split(2, dim=1)
    views = a.reshape(2, 6), a.T, a[1:, ::2], a.unsqueeze(0).expand(2, 3, 4), a.flip(0), a.roll(1, 1), a[torch.tensor([2, 0])]
    return (*pieces, *views, torch.cat([a, b, r]), torch.stack([a, b]), a.sum(0), a.mean(), a.diagonal(), a.mH, a.clone())


def products(a: torch.Tensor, m: torch.Tensor) -> Results:
    return a @ m, a @ m.real.to(torch.complex64), torch.mv(a, m[:, 0]), torch.vdot(a[0], m[:, 0]), a.to(torch.complex128)


def made(x: torch.Tensor, y: torch.Tensor) -> Results:
    return (
        x.real,
        torch.real(y),
        torch.complex(x, y),
        torch.polar(x.abs(), y),
        torch.view_as_complex(torch.stack([x, y], -1)),
        x.to(torch.complex64),
    )


def rotary(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotate queries as Llama's reference implementation does."""
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


@cases(
    case(arithmetic, Z, W),
    case(functions, Z, W),
    case(rearranged, Z, W, torch.randn(1, 4), opsets=OPSETS[1:]),
    case(products, Z, M),
    case(made, X, torch.randn(3, 6, 5)),
    case(rotary, torch.randn(2, 5, 8), torch.randn(5, 4), dynamic={0: [0]}),
)
def test_complex_numbers(check):
    check()


def written(x: torch.Tensor, mask: torch.Tensor) -> Results:
    """Write complex and real values, through views and by operators."""
    z = fft.fft(x)
    z[1] = z[1] + 1
    z[..., 0] *= 2
    z[2:, 1:3] = 1j
    z[mask] = 0.5
    z.real[0].mul_(3)
    z.diagonal().zero_()
    rows = torch.tensor([2, 0])
    filled = z.masked_fill(mask, 2 - 1j), z.index_fill(0, rows, 3), z.masked_scatter(mask, x * 1j)
    moved = z.index_copy(0, rows, z[:2]), z.index_add(0, rows, x[:2] * 2j), z.scatter(0, rows[None].expand(3, 2), z[:, 1:3])
    return z, *filled, *moved


@cases(
    case(written, torch.randn(3, 3), torch.rand(3, 3) > 0.5, opsets=OPSETS[2:]),
)
def test_writes(check):
    check()


def test_pairs_at_the_borders():
    """The graph has real pairs as inputs and outputs, the program complex tensors."""

    class Twice(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z * 2j

    program = onnxexp.export(Twice(), (Z,), verify=True)
    slots = [
        (value.dtype.name, list(value.shape)) for graph in [program.model.graph] for value in (*graph.inputs, *graph.outputs)
    ]
    assert slots == [("FLOAT", [3, 4, 2])] * 2
    torch.testing.assert_close(program(W), W * 2j)
