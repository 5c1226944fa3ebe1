"""random/: properties that do not depend on the draws, and mean and spread."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(2, 4)
OPSETS = (9, 13, 20, 23)


def case(fn, x: torch.Tensor, **options: object) -> Case:
    return Case(fn, x, **{"opsets": OPSETS, **options})


@cases(
    case(lambda x: torch.rand(x.shape[0], 4) < 1, X, dynamic={0: [0]}, name="rand"),
    case(lambda x: (torch.rand_like(x) >= 0) & (torch.rand(2, 4) < 1), X, name="rand_like"),
    case(lambda x: torch.randn(x.shape[0], 4) < 100, X, dynamic={0: [0]}, name="randn"),
    case(lambda x: torch.randn_like(x) < 100, X, dynamic={0: [0]}, name="randn_like"),
    case(lambda x: torch.randint(2, 4, (x.shape[0], 4)) // 2, X, dynamic={0: [0]}, opsets=(11, 13, 20, 23), name="randint"),
    case(lambda x: torch.randint(1, (2, 4)), X, name="randint_one"),
    case(lambda x: torch.randint_like(x, 7, 8), X, dynamic={0: [0]}, name="randint_like"),
    case(lambda x: torch.bernoulli(torch.ones_like(x)), X, dynamic={0: [0]}, name="bernoulli"),
    case(lambda x: torch.bernoulli(x, p=0.0), X, dynamic={0: [0]}, name="bernoulli_p"),
    case(lambda x: torch.randperm(x.shape[0]).sum(), X, dynamic={0: [0]}, opsets=(10, 13, 20, 23), name="randperm"),
    case(lambda x: torch.normal(x, 0.0), X, dynamic={0: [0]}, name="normal"),
    case(lambda x: torch.normal(1.0, x.abs() * 0), X, name="normal_spread"),
    case(lambda x: torch.normal(0.0, 1.0, (2, 3)).isnan(), X, name="normal_sized"),
)
def test_draws(check):
    check()


class Draw(torch.nn.Module):
    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fn(x)


WEIGHTS = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0, 0.5])
DISTRIBUTIONS = {
    "rand": torch.rand_like,
    "rand_sized": lambda x: torch.rand(x.shape[0], 5),
    "rand_double": lambda x: torch.rand_like(x, dtype=torch.float64),
    "uniform": lambda x: torch.empty_like(x).uniform_(-2.0, 5.0),
    "randn": torch.randn_like,
    "randn_double": lambda x: torch.randn_like(x, dtype=torch.float64),
    "normal": lambda x: torch.normal(x + 1, 2 + x),
    "normal_in_place": lambda x: torch.empty_like(x).normal_(3.0, 0.5),
    "log_normal": lambda x: torch.empty_like(x).log_normal_(0.5, 0.25),
    "exponential": lambda x: torch.empty_like(x).exponential_(0.5),
    "exponential_half": lambda x: torch.empty_like(x, dtype=torch.float16).exponential_(2.0),
    "cauchy": lambda x: torch.empty_like(x).cauchy_(1.0, 2.0),
    "geometric": lambda x: torch.empty_like(x).geometric_(0.25),
    "geometric_int": lambda x: torch.empty_like(x, dtype=torch.int64).geometric_(0.4),
    "log_normal_half": lambda x: torch.empty_like(x, dtype=torch.float16).log_normal_(0.5, 0.25),
    "randint_far": lambda x: torch.randint_like(x, 2**40, 2**40 + 9, dtype=torch.int64) - 2**40,
    "randint_wide": lambda x: torch.randint_like(x, -(2**40), 2**41, dtype=torch.int64) / 2**40,
    "randint": lambda x: torch.randint_like(x, -3, 9),
    "random_to": lambda x: torch.empty_like(x, dtype=torch.int64).random_(100),
    "bernoulli": lambda x: torch.bernoulli(x + 0.3),
    "bernoulli_p": lambda x: torch.bernoulli(x, p=0.8),
    "poisson": lambda x: torch.poisson(x + 4),
    "binomial": lambda x: torch.binomial(x + 9, x + 0.3),
    "standard_gamma": lambda x: torch._standard_gamma(x + 3),
    "standard_gamma_small": lambda x: torch._standard_gamma(x + 0.4),
    "dirichlet": lambda x: torch._sample_dirichlet(x.expand(-1, 6) + WEIGHTS + 0.5)[:, 2],
    "multinomial": lambda x: torch.multinomial(WEIGHTS.expand(x.shape[0], 6), 3, replacement=True),
    "multinomial_of_all": lambda x: torch.multinomial(WEIGHTS.expand(x.shape[0], 6), 3)[:, 1],
    "multinomial_alone": lambda x: torch.multinomial(WEIGHTS, 20_000, replacement=True),
    "randperm": lambda x: torch.randperm(x.shape[0]),
    "rrelu": lambda x: F.rrelu(x - 1, 0.1, 0.6, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x.expand(-1, 4))[:, 0],
    "dropout": lambda x: F.dropout(x + 1, 0.3, training=True),
}


TENTHS = torch.arange(1, 10, dtype=torch.float64) / 10


def check_alike(drawn: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare deciles (or frequencies of few values), also of neighbours' differences."""
    for number, wanted in zip(_with_steps(drawn), _with_steps(expected), strict=True):
        values = wanted.unique()
        edges = values + 1e-3 if len(values) < 300 else torch.quantile(wanted, TENTHS)
        shares = [torch.stack([(each <= edge).double().mean() for edge in edges]) for each in (number, wanted)]
        torch.testing.assert_close(*shares, rtol=0, atol=0.03)


def _with_steps(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.double().flatten()[:20_000]
    return x, x[1:] - x[:-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [9, 20, 22, pytest.param(23, marks=pytest.mark.full), pytest.param(26, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str, opset: int) -> None:
    if name == "randperm" and opset == 9:
        pytest.skip("TopK takes a number that is known at run time only from opset 10 on")
    model, x = Draw(DISTRIBUTIONS[name]), torch.zeros(20_000, 1)
    torch.manual_seed(0)
    expected = model(x)
    program = onnxexp.export(model, (x,), opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    first, second = program(x), program(x)
    assert first.dtype == expected.dtype and first.shape == expected.shape
    assert not torch.equal(first, second), "the same numbers again"
    check_alike(first, expected)
    check_alike(second, expected)


class Walk(torch.nn.Module):
    """Sums of draws, whose spread shows dependent draws (as ONNX Runtime's are)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.rand_like(x) for _ in range(12)]).sum(0) - 6


def test_draws_are_independent() -> None:
    x = torch.zeros(20_000)
    program = onnxexp.export(Walk(), (x,), opset_version=22)
    drawn = torch.stack([program(x) for _ in range(8)])
    for sums, fourth in ((drawn[0], 2.9), (drawn.sum(0) / 8**0.5, 2.99)):  # 3 less 1.2 by the number of draws
        moments = torch.stack([sums.mean(), sums.var(), (sums**4).mean()])
        torch.testing.assert_close(moments, torch.tensor([0.0, 1.0, fourth]), rtol=0, atol=0.3)


@pytest.mark.parametrize("opset", [13, 22])
def test_sizes_that_the_export_did_not_see(opset: int) -> None:
    program = onnxexp.export(
        Draw(lambda x: torch.randn(x.shape[0], 1000)), (torch.zeros(3),), opset_version=opset, dynamic_shapes=({0: "n"},)
    )
    drawn = program(torch.zeros(70))
    assert drawn.shape == (70, 1000)
    torch.testing.assert_close((drawn.mean().item(), drawn.std().item()), (0.0, 1.0), rtol=0, atol=0.03)


@pytest.mark.parametrize("opset", [12, 13, 20, 23])
def test_onnx_runtime_keeps_a_dropout_in_the_middle(opset: int) -> None:
    """ONNX Runtime removes a Dropout whose mask is not used."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 200), torch.nn.Dropout(0.5), torch.nn.ReLU())
    program = onnxexp.export(model, (torch.ones(20, 4),), opset_version=opset, training="training")
    kept = (program(torch.ones(20, 4)) > 0).float().mean()
    alone = (model[0](torch.ones(20, 4)) > 0).float().mean()
    torch.testing.assert_close(kept, alone / 2, rtol=0, atol=0.05)


def test_the_specifications_own_operators() -> None:
    model = Draw(lambda x: (torch.rand_like(x), torch.randn(3, 4), F.dropout(x, 0.5, True)))
    program = onnxexp.export(model, (torch.zeros(3, 4),), opset_version=22, target="onnx")
    assert {"RandomUniform", "RandomNormal", "Dropout"} >= {node.op_type for node in program.model.graph}
    onnx.checker.check_model(program.model_proto, full_check=True)


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_samples_follow_the_probabilities(opset):
    weights = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 2.0]])
    program = onnxexp.export(Sampling(2000, True), (weights,), opset_version=opset)
    drawn = program(weights)
    shares = torch.stack([row.bincount(minlength=3) for row in drawn]) / 2000
    torch.testing.assert_close(shares, weights / weights.sum(1, keepdim=True), atol=0.05, rtol=0)


@pytest.mark.parametrize("opset", [10, 13, 20])
def test_samples_without_replacement_are_distinct(opset):
    weights = torch.tensor([1.0, 0.5, 3.0, 2.0])
    drawn = onnxexp.export(Sampling(4, False), (weights,), opset_version=opset)(weights)
    assert drawn.sort().values.tolist() == [0, 1, 2, 3]


class Sampling(torch.nn.Module):
    def __init__(self, count, replacement):
        super().__init__()
        self.count, self.replacement = count, replacement

    def forward(self, weights):
        return torch.multinomial(weights, self.count, self.replacement)
