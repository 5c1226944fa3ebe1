"""statistics/: counts, quantiles and segments; frexp; fractional pooling."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)
FROM_11 = (11, 13, 20)

X = torch.randn(3, 5, 4)
I = torch.randint(0, 4, (3, 7))  # noqa: E741
GAPS = torch.where(X > 0.8, math.nan, X)
NAN_ROW = torch.tensor([[math.nan, math.nan], [1.0, math.nan], [3.0, 2.0]])


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, name=name or fn.__name__, **{"opsets": OPSETS, **options})


def modes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.mode(x).values, torch.mode(x, 0, keepdim=True).values


def mode_is_there(x: torch.Tensor) -> torch.Tensor:
    values, places = torch.mode(x, 1, keepdim=True)
    return x.gather(1, places) == values


def medians(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.nanmedian(), x.nanmedian(0).values, x.nanmedian(1, keepdim=True).values, torch.median(x)


@cases(
    case(modes, I),
    case(modes, I.float(), name="modes of floats"),
    case(mode_is_there, I),
    case(lambda x: x.nanmedian(1), GAPS, name="nanmedian"),
    case(lambda x: (x.nanmedian(), x.nanmedian(1).values), NAN_ROW, name="nothing but NaN"),
    case(medians, I),
)
def test_middles(check):
    check()


def sums_of_what_is_there(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.nansum(), x.nansum(1), x.nansum((0, -1), keepdim=True), x.nansum(0, dtype=torch.float64)


def means_of_what_is_there(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.nanmean(), x.nanmean(1), x.nanmean((0, -1), keepdim=True), x.nanmean(0, dtype=torch.float64)


@cases(
    *(case(fn, GAPS, dynamic={0: [0, 1]}) for fn in (sums_of_what_is_there, means_of_what_is_there)),
    *(case(fn, NAN_ROW, name=f"{fn.__name__}, nothing too") for fn in (sums_of_what_is_there, means_of_what_is_there)),
    *(case(fn, GAPS[0, 0, 0], name=f"{fn.__name__}, of a number") for fn in (torch.nansum, torch.nanmean)),
    case(lambda x: (x.nansum(), x.nansum(1), (x > 1).nansum(0)), I, name="nansum of ints"),
)
def test_without_nan(check):
    check()


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


POINTS = torch.randn(3, 7, 2)
SPLITS = torch.tensor([-1.0, 0.0, 0.5]), torch.tensor([-2.0, -1.0, 0.0, 2.0])


def histograms(x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, ...]:
    counted = *torch.histogram(x, 6), *torch.histogram(x, 4, range=(-1.0, 1.0)), *torch.histogram(x, edges)
    return (*counted, *torch.histogram(x, edges, density=True), torch.histc(x, 7), torch.histc(x, 5, -1, 2))


def histograms_of_points(x: torch.Tensor, weights: torch.Tensor, edges: torch.Tensor, more: torch.Tensor) -> tuple[Any, ...]:
    counted = torch.histogramdd(x, [3, 4]), torch.histogramdd(x, 5, density=True)
    within = torch.histogramdd(x, [2, 1], range=[-1.0, 1.0, 0.5, 0.5]), torch.histogramdd(x, [edges, more])
    return *counted, *within, torch.histogramdd(x, [2, 3], weight=weights, density=True)


@cases(
    case(torch.bincount, torch.tensor([3, 0, 3, 1]), opsets=OPSETS),
    case(lambda x: torch.bincount(x, minlength=9), torch.tensor([3, 0, 3, 1]), name="minlength"),
    case(torch.bincount, torch.tensor([1, 1, 4]), torch.tensor([0.5, 2.0, 1.0]), name="weights"),
    case(histograms, X, torch.tensor([-1.0, -0.5, 0.0, 2.0])),
    case(lambda x: (torch.histc(x, 3), *torch.histogram(x, 2)), torch.tensor([2.0]), name="one element"),
    case(lambda x: torch.histogram(x, 3, range=(0.0, 0.0)), torch.tensor([0.0, 0.2, -0.3, 0.6]), name="an empty range"),
    case(histograms_of_points, POINTS, torch.rand(3, 7), *SPLITS, opsets=OPSETS),
    case(lambda x: torch.histogramdd(x, [3, 2, 2]), torch.randn(5, 3).double(), name="points in space"),
    case(lambda x: torch.histogramdd(x, 2), torch.tensor([[1.0, 2.0]]), name="one point"),
    case(lambda x: torch.histogramdd(x, 2, range=[0.0, 1.0]), torch.tensor([[0.5], [1.0], [-0.1]]), name="points on a line"),
)
def test_counts(check):
    check()


def segments(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
    reductions = [torch.segment_reduce(x, reduce, lengths=lengths) for reduce in ("sum", "mean", "max", "min", "prod")]
    started = [torch.segment_reduce(x, reduce, lengths=lengths, initial=2.0) for reduce in ("sum", "max", "mean")]
    return (*reductions, *started, torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 2, 5])))


@cases(
    case(segments, torch.randn(5, 3), torch.tensor([2, 3]), opsets=FROM_11),
    case(lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([0, 3, 2])), torch.randn(5), name="empty", opsets=FROM_11),
)
def test_segments(check):
    check()


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


def between(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    spaces = torch.linspace(a, b, 5), torch.linspace(a, 3, 4), torch.linspace(0, b, 1), torch.linspace(a, b, 4, dtype=torch.int64)
    return (*spaces, torch.logspace(a, b, 5), torch.logspace(a, 2, 3, base=2.0))


@cases(
    case(between, torch.tensor(0.5), torch.tensor(2.25), rtol=1e-6, atol=1e-6),
    case(lambda x: torch.nonzero_static(x > 0, size=5), torch.tensor([[1.0, -1.0], [2.0, 3.0]]), name="filled up"),
    case(lambda x: torch.nonzero_static(x > 0, size=2), torch.tensor([[1.0, -1.0], [2.0, 3.0]]), name="cut off"),
    case(F.pdist, torch.randn(5, 3), rtol=1e-5, atol=1e-5),
    case(
        lambda x, y: x.as_strided_scatter(y, (2, 2), (5, 2), 1), torch.randn(3, 5), torch.randn(2, 2), name="as_strided_scatter"
    ),
    case(
        lambda x, i, j, v: x.index_put((i, j), v, accumulate=True),
        torch.randn(4, 3, 2),
        torch.tensor([[0, 0], [-1, 0]]),
        torch.tensor([1, 1]),
        torch.randn(2, 2, 2),
        name="adding up at places of two indices",
        rtol=1e-6,
    ),
    case(
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        torch.tensor([True, False, False]),
        torch.tensor([1, 1]),
        torch.tensor([True, False]),
        name="adding up bools",
    ),
)
def test_more_indexing(check):
    check()


def pooled(dims: int, samples: torch.Tensor, kernel: Any = 2, output: Any = 3):
    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        function = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
        return function(x, kernel, output_size=output, return_indices=True, _random_samples=samples)

    return call


@cases(
    case(pooled(2, torch.rand(2, 3, 2)), torch.randn(2, 3, 7, 8), name="fractional_max_pool2d", opsets=FROM_11),
    case(pooled(2, torch.rand(1, 3, 2)), torch.randn(3, 7, 8), name="unbatched", opsets=FROM_11),
    case(pooled(3, torch.rand(2, 2, 3)), torch.randn(2, 2, 5, 6, 7), name="fractional_max_pool3d", opsets=FROM_11),
    case(pooled(2, torch.rand(2, 3, 2), (2, 3), (1, 4)), torch.randn(2, 3, 7, 9), name="one window of 2", opsets=FROM_11),
    case(
        pooled(3, torch.rand(1, 2, 3).double(), (1, 3, 2), (4, 1, 5)),
        torch.randn(1, 2, 6, 4, 11).double(),
        name="uneven windows of 3",
        opsets=FROM_11,
    ),
    case(pooled(2, torch.rand(2, 3, 2)), torch.randint(0, 2, (2, 3, 7, 8)).float(), name="the first of ties", opsets=FROM_11),
)
def test_fractional_pooling(check):
    check()


def averages(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    plain = F.avg_pool2d(x, 3, 2), F.avg_pool2d(x, 3, 2, padding=1), F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
    return (*plain, F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3))


@cases(
    case(averages, torch.randint(-9, 9, (1, 2, 8, 8)), name="averages of ints"),
    case(lambda i: F.one_hot(i, 4), torch.tensor(2), name="one_hot of a number"),
    case(lambda x: F.pad(x, (-2, 3, 1, -3), mode="replicate"), torch.randn(1, 2, 3, 4), name="replication that crops"),
    case(lambda x: F.pad(x, (-2, 3), mode="replicate"), torch.randn(2, 2), name="replication of what is cropped away"),
    case(lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), torch.randn(1, 2, 3, 4), name="circular"),
    case(lambda x: (x @ torch.ones(4, 2), x.sum(1), x.unsqueeze(0)), torch.ones(0, 4), name="nothing"),
    case(
        lambda x, m, v: torch.addmv(x, m, v, beta=0.6, alpha=2.9),
        torch.arange(2),
        torch.ones(2, 3).long(),
        torch.arange(3),
        name="factors of ints",
    ),
)
def test_what_once_was_wrong(check):
    check()
