"""Operators that compare their elements, where these are NaN or infinite."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from onnxexp.testing import Case, cases

NAN, INF = math.nan, math.inf
X = torch.tensor([[1.0, NAN, 3.0, -1.0, 2.0], [INF, -INF, 0.0, -0.0, 0.5], [NAN, 2.0, NAN, -INF, INF], [4.0, 2.0, 8.0, 1.0, 3.0]])
BOUNDS = torch.tensor([-1.0, 0.0, 1.0, 2.5])
ROWS = {0: [0]}


@cases(
    Case(lambda x: torch.bucketize(x, BOUNDS), X, dynamic=ROWS, name="bucketize"),
    Case(lambda x: torch.bucketize(x, BOUNDS, right=True), X, dynamic=ROWS, name="bucketize_right"),
    Case(lambda x: torch.bucketize(x.int(), BOUNDS.int()), X.nan_to_num(), name="bucketize_integers"),
    Case(lambda x: torch.searchsorted(BOUNDS, x), X, dynamic=ROWS, name="searchsorted"),
    Case(lambda x: x.median(-1), X, dynamic=ROWS, name="median"),
    Case(lambda x: x.median(0, keepdim=True), X, name="median_keepdim"),
    Case(lambda x: x.median(), X, dynamic=ROWS, opsets=[10, 20], name="median_of_all"),
    Case(lambda x: x[3:].median(), X, name="median_of_numbers"),
    Case(lambda x: x.double().median(1), X, name="median_double"),
    Case(lambda x: x.cummax(1), X, dynamic=ROWS, name="cummax"),
    Case(lambda x: x.cummin(1), X, dynamic=ROWS, name="cummin"),
    Case(lambda x: x.cummax(0), X, dynamic=ROWS, name="cummax_of_rows"),
    Case(lambda x: functional.hardshrink(x, 0.5), X, dynamic=ROWS, name="hardshrink"),
    Case(lambda x: functional.softshrink(x, 0.5), X, dynamic=ROWS, name="softshrink"),
    Case(lambda x: functional.hardshrink(x.double()), X, name="hardshrink_double"),
    Case(lambda x: (x.sign(), x.double().sgn(), x.half().sign()), X, dynamic=ROWS, name="sign"),
)
def test_not_a_number(check):
    check()
