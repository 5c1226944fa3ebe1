"""random.py: what does not depend on the numbers drawn, and their mean and spread."""

from __future__ import annotations

import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(2, 4)
OPSETS = (9, 13, 20)  # ONNX Runtime 1.31 has no kernels for the random operators of opset 22


def case(fn, x: torch.Tensor, **options: object) -> Case:
    return Case(fn, x, **{"opsets": OPSETS, **options})


@cases(
    case(lambda x: torch.rand(x.shape[0], 4) < 1, X, dynamic={0: [0]}, name="rand"),
    case(lambda x: (torch.rand_like(x) >= 0) & (torch.rand(2, 4) < 1), X, name="rand_like"),
    case(lambda x: torch.randn(x.shape[0], 4) < 100, X, dynamic={0: [0]}, name="randn"),
    case(lambda x: torch.randn_like(x) < 100, X, dynamic={0: [0]}, name="randn_like"),
    case(lambda x: torch.randint(2, 4, (x.shape[0], 4)) // 2, X, dynamic={0: [0]}, opsets=(11, 13, 20), name="randint"),
    case(lambda x: torch.randint(1, (2, 4)), X, name="randint_one"),
    case(lambda x: torch.randint_like(x, 7, 8), X, dynamic={0: [0]}, name="randint_like"),
    case(lambda x: torch.bernoulli(torch.ones_like(x)), X, dynamic={0: [0]}, name="bernoulli"),
    case(lambda x: torch.bernoulli(x, p=0.0), X, dynamic={0: [0]}, name="bernoulli_p"),
    case(lambda x: torch.randperm(x.shape[0]).sum(), X, dynamic={0: [0]}, opsets=(10, 13, 20), name="randperm"),
    case(lambda x: torch.normal(x, 0.0), X, dynamic={0: [0]}, name="normal"),
    case(lambda x: torch.normal(1.0, x.abs() * 0), X, name="normal_spread"),
    case(lambda x: torch.normal(0.0, 1.0, (2, 3)).isnan(), X, name="normal_sized"),
)
def test_whatever_is_drawn(check):
    check()


class Draw(torch.nn.Module):
    """Numbers of four distributions with known mean and standard deviation."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = (x.shape[0], 1000)
        return torch.rand(size), torch.randn(size), torch.randint(0, 5, size).float(), torch.bernoulli(torch.full(size, 0.25))


def test_moments() -> None:
    program = onnxexp.export(Draw(), (torch.zeros(50),), dynamic_shapes=({0: "n"},))
    expected = [(0.5, 12**-0.5), (0.0, 1.0), (2.0, 2**0.5), (0.25, (3 / 16) ** 0.5)]
    for drawn, (mean, std) in zip(program(torch.zeros(70)), expected, strict=True):
        assert drawn.shape == (70, 1000)
        torch.testing.assert_close((drawn.mean().item(), drawn.std().item()), (mean, std), rtol=0, atol=0.03)
