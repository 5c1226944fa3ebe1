"""passes/fuse_mul_chains.py: expressions that ONNX has as one operator."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(2, 3, 8)
ONES = torch.ones((), dtype=torch.bool)


class RMSNorm(torch.nn.Module):
    """RMS normalization as transformers writes it."""

    def __init__(self, shape=(8,), dims=(-1,)):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(shape))
        self.dims = dims

    def forward(self, x):
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(self.dims, keepdim=True)
        return self.weight * (wide * torch.rsqrt(variance + 1e-6)).to(x.dtype)


class SquareByProduct(RMSNorm):
    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class OtherSquares(RMSNorm):
    """Not a norm of x: the squares are of something else."""

    def forward(self, x):
        return self.weight * (x * torch.rsqrt((x + 1).pow(2).mean(-1, keepdim=True) + 1e-6))


def half(module):
    return module.half()


BOTH = (13, 20, 23)


@cases(
    Case(RMSNorm(), X, dynamic={0: [0, 1]}, emits={"RMSNormalization"}),
    Case(RMSNorm((3, 8), (-2, -1)), X, emits={"RMSNormalization"}, opsets=BOTH, name="two axes"),
    Case(SquareByProduct(), X, emits={"RMSNormalization"}, opsets=BOTH),
    Case(half(RMSNorm()), X.half(), emits={"RMSNormalization"}, opsets=BOTH, rtol=2e-3, atol=2e-3, name="half"),
    Case(
        lambda x, w: F.rms_norm(x, (8,), w, 1e-5), X, torch.rand(8), emits={"RMSNormalization"}, opsets=BOTH, name="torch's own"
    ),
    Case(
        RMSNorm(),
        X,
        emits={"Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"},
        opsets=(9, 13, 22),
        name="as ONNX Runtime fuses it",
    ),
)
def test_rms_normalization(check):
    check()


@cases(
    Case(OtherSquares(), X, opsets=BOTH),
    Case(RMSNorm((3, 8), (-1,)), X, opsets=BOTH, name="a weight of more axes"),
    Case(RMSNorm((2, 1, 1), (0,)), X, opsets=BOTH, name="the first axis"),
    Case(RMSNorm().double(), X.double(), opsets=BOTH, name="double", rtol=1e-5, atol=1e-5),
    Case(RMSNorm((1,)), X, opsets=BOTH, name="one weight for all"),
)
def test_what_looks_like_it_but_is_not(check):
    check()


@cases(
    Case(lambda x, y: x * torch.reciprocal(y), X, X.abs() + 1, emits={"Div"}, name="a product with a reciprocal"),
    Case(lambda m: torch.ones((), dtype=torch.bool) & m, X > 0, emits={"Identity"}, name="and True"),
    Case(lambda m: torch.ones((2, 3, 8), dtype=torch.bool) & m, X[0, 0] > 0, name="and True of a larger shape"),
)
def test_products(check):
    check()
