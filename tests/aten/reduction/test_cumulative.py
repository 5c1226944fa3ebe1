"""reduction/cumulative.py: cumulative operators; a Scan where ONNX has none."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4, 5)
I = torch.randint(-3, 4, (3, 4))  # noqa: E741


def sums(x):
    return x.cumsum(0), x.cumsum(-1), x.cumsum(1, dtype=torch.float64), x.cumsum(0, dtype=torch.int32)


def products(x):
    return x.cumprod(0), x.cumprod(-1), x.cumprod(1, dtype=torch.float64)


def extremes(x):
    return *x.cummax(1), *x.cummin(0)


FUNCTIONS = (sums, products, extremes)
TIES = torch.tensor([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 0.0, 0.0]])


@cases(
    *(Case(fn, X, dynamic={0: [0, 1]}) for fn in FUNCTIONS),
    *(Case(fn, X.double(), opsets=(9, 20), name=f"{fn.__name__} double") for fn in FUNCTIONS),
    *(Case(fn, X.half(), opsets=(9, 13, 20), rtol=8e-3, atol=8e-3, name=f"{fn.__name__} half") for fn in FUNCTIONS),
    *(Case(fn, x, opsets=(9, 11, 20), name=f"{fn.__name__} ints") for fn in FUNCTIONS for x in (I, I.int(), I.to(torch.int8))),
    *(Case(fn, I > 0, opsets=(9, 11, 20), name=f"{fn.__name__} bools") for fn in (sums, products)),
    Case(extremes, TIES, name="ties"),
    Case(lambda x: (x.cumsum(0), x.cumprod(0), *x.cummax(0)), torch.tensor(2.5), name="0-d"),
    Case(lambda x: x.logcumsumexp(1), X, name="logcumsumexp"),
    Case(lambda x: x.logcumsumexp(1), torch.tensor([[0, 0, 2], [1, 0, torch.inf]]).log(), name="logcumsumexp of nothing"),
    Case(lambda x: x.cumsum(1), X, emits={"CumSum"}, name="one node"),
)
def test_cumulative(check):
    check()


@cases(Case(products, X, opsets=(25, 26)), Case(lambda x: x.cumprod(1), X, opsets=(26,), emits={"CumProd"}, name="one node"))
def test_cumprod_of_opset_26(check):
    check()


LARGE = torch.full((39,), 3)  # 3**39 is above 2**53
NUMBERS = torch.randint(-9, 9, (3, 2, 4, 5))


@cases(
    Case(lambda x: x.prod(), LARGE, dynamic={0: [0]}, name="prod_above_2_to_the_53"),
    Case(
        lambda x: (x.prod(), x.prod(0), x.prod(0, dtype=torch.int32)), torch.arange(2, 74).to(torch.uint8), name="prod_overflows"
    ),
    *(Case(lambda x, d=d: (x.prod(d), x.prod(d, True)), NUMBERS, dynamic={0: [0, 2]}, name=f"prod_{d}") for d in range(4)),
    Case(lambda x: (x[:0].prod(), x[:0].prod(0), x[0, 0, 0, 0].prod(), (x > -9).prod(1)), NUMBERS, name="prod_of_few"),
)
def test_products_of_integers(check):
    check()
