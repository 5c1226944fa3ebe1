"""statistics/histograms.py: counts of elements and of points in bins."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)
X = torch.randn(3, 5, 4)


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, name=name or fn.__name__, **{"opsets": OPSETS, **options})


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
