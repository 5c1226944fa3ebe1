"""math/functions_of_two.py: every kind of float, without a rounding error."""

from __future__ import annotations

import math

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, name=name or fn.__name__, **{"opsets": OPSETS, **options})


BITS = torch.randint(-(2**31), 2**31 - 1, (2000,)).int()
EDGES = (torch.arange(1, 255).int()[:, None] * 2**23 + torch.tensor([-1, 0, 1], dtype=torch.int32)).view(torch.float32).flatten()
NUMBERS = torch.tensor([0.0, 1.0, -1.0, 0.75, 2.0, -1e-40, 3e38, 1.5e-38, 1e-45, math.inf, -math.inf, math.nan, 16777216.0])
HALVES = torch.tensor([0.0, 1.0, -1.0, 0.75, 2.0, -2e-6, 65504.0, 7e-5, 6e-8, math.inf, -math.inf, math.nan, 2048.0]).half()
GOALS = torch.tensor([1.0, 2.0, 0.0, -0.0, 0.0, 1.0, math.inf, 0.0, -1.0, 0.0, -math.inf, 1.0, 0.0])


@cases(
    case(torch.nextafter, NUMBERS, GOALS, rtol=0),
    case(torch.nextafter, HALVES, GOALS.half(), rtol=0, name="nextafter of float16"),
    case(torch.nextafter, BITS.view(torch.float32), BITS.flip(0).view(torch.float32), rtol=0, name="nextafter of any bits"),
    case(torch.nextafter, EDGES, torch.tensor([[math.inf], [-math.inf], [0.0]]), rtol=0, name="nextafter around powers of two"),
    case(torch.frexp, NUMBERS[:10], rtol=0),
    case(torch.frexp, torch.randn(20, dtype=torch.float64) * 1e5, rtol=0, name="frexp of float64"),
)
def test_parts_of_floats(check):
    check()
