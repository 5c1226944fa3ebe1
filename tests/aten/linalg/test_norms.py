"""linalg/norms.py: every order, over some dimensions and all."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4, 5) * 3
INF = float("inf")


def norms(x):
    return x.norm(), x.norm(1), x.norm(2, 1), x.norm(INF, (0, 1)), x.norm(-INF), x.norm(0, 1, True), x.norm(3, 2)


def other_spellings(x):
    modern = torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1.5, (0, 1), True), torch.linalg.matrix_norm(x)
    old = torch.norm(x, dim=1, p="fro"), torch.norm(x, dtype=torch.float64, p=2), x.norm(2, 1, dtype=torch.float64)
    return *modern, *old, F.normalize(x, dim=1), torch.dist(x, x * 2), torch.dist(x, x * 2, 1)


def of_one(x):
    return x.norm(), x.norm(1, 0), x.norm(0), x.norm(INF)


def renormed(x):
    return x.renorm(2, 0, 5.0), x.renorm(1, -1, 20.0), x.renorm(1.5, 1, 0.0), x.renorm(INF, 1, 7.0)


@cases(
    Case(renormed, X, dynamic={0: [0, 1]}),
    Case(renormed, torch.where(X > 7, torch.nan, X).double(), name="renormed with NaN", opsets=(9, 20)),
    Case(renormed, X.half(), rtol=4e-3, atol=4e-3, name="renormed halves", opsets=(9, 20)),
    Case(norms, X, dynamic={0: [0, 1]}),
    Case(other_spellings, X, dynamic={0: [0]}),
    *(Case(fn, X.double(), name=f"{fn.__name__} double", opsets=(9, 20)) for fn in (norms, other_spellings)),
    Case(norms, X.half(), rtol=4e-3, atol=4e-3, name="half", opsets=(9, 20)),
    Case(of_one, torch.tensor(-2.5)),
    Case(lambda x: x.norm(2, 1), X, emits={"ReduceL2"}, name="one node"),
)
def test_norms(check):
    check()
