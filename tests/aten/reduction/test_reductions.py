"""reduction/reductions.py: overloads, dimensions, dtypes, empty tensors, ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

FLOATS = (torch.float32, torch.float64, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8)
OPSETS = (9, 11, 13, 18, 20)
X = torch.randn(3, 4, 5)
I = torch.randint(-4, 4, (3, 4, 5))  # noqa: E741
B = torch.rand(3, 4, 5) > 0.7

ANY: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, 2)), x.sum(-1, keepdim=True), x.sum((0, 1, 2)), x.sum((), keepdim=True)),
    "sum_dtype": lambda x: (x.sum(0, dtype=torch.float64), x.sum(dtype=torch.float32), x.sum(1, dtype=torch.int32)),
    "extremes": lambda x: (
        x.max(),
        x.min(),
        x.amax(),
        x.amin((0, 2)),
        x.amax(1, keepdim=True),
        *torch.aminmax(x),
        *torch.aminmax(x, dim=1),
    ),
    "extremes_with_places": lambda x: (*x.max(1), *x.min(-1, keepdim=True)),
    "truth": lambda x: (x.any(), x.all(), x.any(1), x.all(-1, keepdim=True), torch.any(x, (0, 1)), torch.all(x, (0, 2), True)),
    "count_nonzero": lambda x: (x.count_nonzero(), x.count_nonzero(1), x.count_nonzero((0, 2))),
}
NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "places": lambda x: (x.argmax(), x.argmin(), x.argmax(1), x.argmin(-1, True), x.argmax(keepdim=True)),
    "prod": lambda x: (x.prod(1), x.prod(-1, keepdim=True), x.prod(0, dtype=torch.float64)),
}
REAL: dict[str, Callable[[torch.Tensor], Any]] = {
    "mean": lambda x: (
        x.mean(),
        x.mean(1),
        x.mean((0, 2)),
        x.mean(-1, keepdim=True),
        x.mean((0, 1, 2), keepdim=True),
        x.mean(0, dtype=torch.float64),
    ),
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 2), True)),
    "var": lambda x: (x.var(), x.var(1), x.var((0, 2)), x.var(-1, unbiased=False), x.var(1, keepdim=True), x.var(unbiased=False)),
    "var_correction": lambda x: (x.var(dim=(1, 2), correction=2), x.var(dim=1, correction=0), x.std(dim=None, correction=0)),
    "std": lambda x: (x.std(), x.std(1), x.std(-1, unbiased=False, keepdim=True), x.std((0, 1))),
    "with_mean": lambda x: (
        *torch.var_mean(x, 1),
        *torch.std_mean(x, (0, 1), keepdim=True),
        *torch.std_mean(x),
        *torch.var_mean(x, dim=1, correction=0),
    ),
}


def case(name: str, fn: Callable[..., Any], x: torch.Tensor, **options: Any) -> Case:
    tolerance = 8e-3 if x.dtype == torch.float16 else 1e-5
    label = f"{name}-{str(x.dtype).removeprefix('torch.')}"
    return Case(fn, x, rtol=tolerance, atol=tolerance, name=label, **{"opsets": OPSETS, **options})


def of_nothing(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.mean(), x.mean(1), x.sum(1), x.prod(1), *torch.var_mean(x, 1), x.std(1), x.any(1), x.all(1)


def sums_to_sizes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.sum_to_size(5),
        x.sum_to_size(3, 1, 5),
        x.sum_to_size(1),
        x.sum_to_size(()),
        x[:1].sum_to_size(4, 5),
        x.sum_to_size(3, 4, 5),
    )


@cases(
    *(case("sum_to_size", sums_to_sizes, x) for x in (X, X.half(), I, B)),
    *(case("sum_to_size of one", lambda x: x.sum_to_size(()), x[0, 0, 0]) for x in (X, B)),
    Case(lambda x: (x.sum_to_size(1, 4, 1), x.sum_to_size(5)), X, dynamic={0: [0]}, name="sum_to_size, dynamic"),
)
def test_sum_to_size(check):
    check()


@cases(Case(of_nothing, torch.ones(2, 0), opsets=(9, 13, 20)))
def test_of_nothing(check):
    check()


@cases(*(case(name, fn, X, dynamic={0: [0, 1]}) for name, fn in {**ANY, **NUMBERS, **REAL}.items()))
def test_single_precision(check):
    check()


@cases(*(case(name, fn, X.to(dtype)) for name, fn in {**ANY, **NUMBERS, **REAL}.items() for dtype in FLOATS[1:]))
def test_double_and_half_precision(check):
    check()


@cases(
    *(case(name, fn, I.to(dtype)) for name, fn in {**ANY, **NUMBERS}.items() for dtype in INTS),
    *(case(name, fn, I.abs().to(torch.uint8)) for name, fn in ANY.items()),
    *(case(name, fn, B) for name, fn in ANY.items()),
)
def test_ints_and_bools(check):
    check()


def of_one(x: torch.Tensor) -> Any:
    sums = x.sum(), x.sum(0), x.mean(-1), x.prod(), x.logsumexp(0), x.std(unbiased=False), x.var(0, unbiased=False)
    return *sums, x.max(), x.amax(0), *x.max(0), x.argmax(), x.argmax(0), x.all(), x.any()


def of_none(x: torch.Tensor) -> Any:
    return x.sum(), x.sum(0), x.sum(1), x.any(), x.all(), x.any(1), x.all(0), x.prod()


def of_equal(x: torch.Tensor) -> Any:
    return *x.max(1), *x.min(1), x.argmax(0), x.argmin(0)


INF = float("inf")


@cases(
    case("0-d", of_one, torch.tensor(2.5)),
    case("empty", of_none, torch.randn(0, 3)),
    case("ties", of_equal, torch.tensor([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 0.0, 0.0]])),
    case("infinite", lambda x: x.logsumexp(1), torch.tensor([[-INF, -INF], [1.0, -INF], [INF, 1.0]])),
    case("small beside nothing", lambda x: (x.logsumexp(1), x.logsumexp(0)), torch.tensor([[-INF, -200.0], [-100.0, -101.0]])),
    case("halves beside nothing", lambda x: x.logsumexp(1), torch.tensor([[-INF, -200.0], [-INF, -INF]]).half()),
)
def test_odd_inputs(check):
    check()


@cases(
    Case(lambda x: x.sum(1), X, emits={"ReduceSum"}, name="sum"),
    Case(lambda x: x.mean((1, 2), keepdim=True), X, emits={"ReduceMean"}, name="mean"),
    Case(lambda x: x.any(1), B, emits={"ReduceMax"}, opsets=(20,), name="any"),
    Case(lambda x: x.argmax(-1), X, emits={"ArgMax"}, name="argmax"),
    Case(lambda x: x.var(1), X, emits={"ReduceMean", "Sub", "ReduceSumSquare", "Div"}, name="var"),
    Case(lambda x: x.max(1).values, X, emits={"ReduceMax"}, name="the values of max"),
)
def test_what_is_emitted(check):
    check()
