"""statistics/quantiles.py: every interpolation, with NaN and infinities."""

from __future__ import annotations

import math

import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)
FROM_11 = (11, 13, 20)

X = torch.randn(3, 5, 4)
GAPS = torch.where(X > 0.8, math.nan, X)
NAN_ROW = torch.tensor([[math.nan, math.nan], [1.0, math.nan], [3.0, 2.0]])


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, name=name or fn.__name__, **{"opsets": OPSETS, **options})


INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")
SHARES = torch.tensor([0.0, 0.25, 0.31, 0.5, 0.73, 1.0])
WITHIN_INFINITY = torch.tensor([[math.inf, 1.0, 2.0], [-math.inf, 3.0, math.inf], [math.nan, math.inf, 1.0], [math.nan] * 3])


def quantiles(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compute one or several quantiles, by axis and of all, without and with NaN."""
    shares = SHARES.to(x.dtype)
    each = [fn(x, 0.3, -1, interpolation=way) for way in INTERPOLATIONS for fn in (torch.quantile, torch.nanquantile)]
    several = [fn(x, shares, 0, keepdim=keep) for keep in (False, True) for fn in (torch.quantile, torch.nanquantile)]
    whole = [
        fn(x, q, keepdim=keep) for q in (0.7, shares) for keep in (False, True) for fn in (torch.quantile, torch.nanquantile)
    ]
    return (*each, *several, *whole)


def quantiles_at(x: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.quantile(x, q, 1), torch.nanquantile(x, q, 1, True), torch.quantile(x, q[0], 0), torch.nanquantile(x, q[0])


@cases(
    case(quantiles, X, name="quantiles"),
    case(quantiles, GAPS, dynamic={0: [0]}, name="quantiles of NaN", opsets=(10, 13, 20)),
    case(quantiles, NAN_ROW, dynamic={0: [0, 1]}, name="quantiles of rows of NaN", opsets=(10, 13, 20)),
    case(quantiles, WITHIN_INFINITY, name="quantiles of infinities"),
    case(quantiles, X[0].double(), name="quantiles of float64"),
    *(case(quantiles, torch.tensor(number), name=f"quantiles of {number}") for number in (2.5, math.inf, math.nan)),
    case(quantiles_at, GAPS, SHARES, dynamic={0: [1], 1: [0]}, name="shares that are an input", opsets=FROM_11),
)
def test_quantiles(check):
    check()


def test_quantiles_that_are_known_sort_no_more_than_they_need() -> None:
    program = onnxexp.export(lambda x: torch.quantile(x, 0.25, 1), (torch.randn(3, 101),), capture="trace", opset_version=20)
    top = next(node for node in program.model.graph if node.op_type == "TopK")
    assert top.inputs[1].const_value.numpy().tolist() == [26]
