"""statistics/quantiles.py: modes, and functions that leave NaN out."""

from __future__ import annotations

import math

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)
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
