"""Order and positions, by three modules of statistics/.

The modules are sorting.py and nonzero_and_searchsorted.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)

FLOATS = (torch.float32, torch.float64, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ORDERS = torch.stack([torch.randperm(5) for _ in range(12)]).reshape(3, 4, 5)
X = torch.randn(3, 4, 5)
B = torch.rand(3, 4, 5) > 0.6


def typed(fn: Callable[..., Any], x: torch.Tensor, dtype: torch.dtype, **options: Any) -> Case:
    return Case(fn, x.to(dtype), name=f"{fn.__name__}-{str(dtype).removeprefix('torch.')}", **options)


def largest(x: torch.Tensor) -> Any:
    return *x.topk(2), x.topk(3, 1)[0], *x.topk(2, largest=False), x.topk(5, sorted=False)[0].sort()[0]


def in_order(x: torch.Tensor) -> Any:
    sorts = *x.sort(), *x.sort(descending=True), *x.sort(stable=True)
    return *sorts, x.argsort(), x.argsort(stable=True, descending=True), *x.kthvalue(2), *x.kthvalue(3, -1, True)


def middle(x: torch.Tensor) -> Any:
    return x.median(), *x.median(-1), *x.median(2, True), x.flatten()[:4].median()


def along_a_dynamic_axis(x: torch.Tensor) -> Any:
    return *x.sort(0), x.sort(1, True).values, torch.msort(x), x.median(0).values, x.median()


def stable(x: torch.Tensor) -> Any:
    return *x.sort(stable=True, descending=True), *x.sort(stable=True)


@cases(
    *(
        typed(fn, ORDERS, dtype, dynamic={0: [0]}, opsets=(9, 10, 11, 20))
        for fn in (largest, in_order)
        for dtype in FLOATS + INTS
    ),
    *(typed(middle, ORDERS, dtype, opsets=(9, 11, 20)) for dtype in FLOATS + INTS),
    Case(along_a_dynamic_axis, X, dynamic={0: [0, 1]}, opsets=(10, 11, 13, 20, 23)),
    Case(stable, torch.tensor([2.0, 1.0, 2.0, 1.0, 3.0, 2.0])),
    Case(stable, B[0, 0], name="bools"),
    Case(lambda x: (*x.sort(), *x.topk(1), *x.median(0), x.argsort(), x.median()), torch.tensor(2.5), name="0-d"),
    Case(lambda x: x.topk(2), X, emits={"TopK"}, name="one node"),
)
def test_order(check):
    check()


def test_a_dynamic_number_of_elements_needs_opset_10():
    with pytest.raises(onnxexp.OpsetError, match="opset 10"):
        check_case(Case(lambda x: x.sort(0), X, dynamic={0: [0]}), 9, dynamic=True)


def distinct(x: torch.Tensor) -> Any:
    both = x.unique(return_inverse=True, return_counts=True)
    return x.unique(), *x.unique(return_inverse=True), *x.unique(return_counts=True), *both


def distinct_rows(x: torch.Tensor) -> Any:
    return x.unique(dim=0), *x.unique(dim=1, return_inverse=True, return_counts=True), x.unique(return_inverse=True)[1]


def distinct_neighbours(x: torch.Tensor) -> Any:
    return torch.unique_consecutive(x), *torch.unique_consecutive(x, return_inverse=True, return_counts=True)


def distinct_neighbouring_rows(x: torch.Tensor) -> Any:
    places = torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True)
    return *places, torch.unique_consecutive(x, dim=-1), torch.unique_consecutive(x[0], dim=-1).sum(0)


FROM_11 = (11, 13, 20, 23)


@cases(
    *(typed(distinct, torch.tensor([3, 1, 1, 2, 3, 3]), dtype, opsets=FROM_11) for dtype in (*FLOATS, *INTS)),
    *(typed(distinct_neighbours, torch.tensor([3, 1, 1, 2, 3, 3]), dtype, opsets=FROM_11) for dtype in (*FLOATS, *INTS)),
    *(
        typed(distinct_rows, torch.tensor([[1, 2], [1, 2], [3, 4]]), dtype, opsets=FROM_11)
        for dtype in (torch.float32, torch.int64)
    ),
    Case(distinct_neighbours, torch.tensor([[1, 2], [2, 2], [3, 3]]), opsets=FROM_11, dynamic={0: [0]}, name="of rows"),
    *(
        typed(
            distinct_neighbouring_rows,
            torch.tensor([[1, 2, 2], [1, 2, 2], [1, 3, 3]]),
            dtype,
            opsets=FROM_11,
            dynamic={0: [0, 1]},
        )
        for dtype in (torch.float32, torch.int64, torch.uint8)
    ),
    Case(distinct_neighbouring_rows, torch.tensor([[1, torch.nan], [1, torch.nan], [2, 0]]), opsets=FROM_11, name="rows of NaN"),
    Case(torch.unique, B, opsets=FROM_11, name="bools"),
)
def test_distinct_elements(check):
    check()


def places(x: torch.Tensor) -> Any:
    return x.nonzero(), *x.nonzero(as_tuple=True), *torch.where(x), x[0, 0].nonzero(), torch.argwhere(x)


@cases(
    *(typed(places, ORDERS * B, dtype, dynamic={0: [0]}, opsets=(9, 13, 20)) for dtype in (*FLOATS, *INTS, torch.bool)),
    Case(torch.nonzero, torch.tensor(3), name="0-d"),
)
def test_places(check):
    check()


BOUNDS = torch.tensor([1.0, 3.0, 5.0])


def buckets(values: torch.Tensor, bounds: torch.Tensor) -> Any:
    one = (
        torch.bucketize(values, bounds),
        torch.bucketize(values, bounds, right=True),
        torch.bucketize(values, bounds, out_int32=True),
    )
    rows = torch.stack([bounds, bounds + 1])
    many = torch.searchsorted(rows, values), torch.searchsorted(rows, values, side="right")
    return *one, *many, torch.searchsorted(bounds, values), torch.bucketize(3.0, bounds), torch.searchsorted(bounds, 3.0)


def members(x: torch.Tensor, tests: torch.Tensor) -> Any:
    one = torch.isin(x, 2), torch.isin(x, 2, invert=True), torch.isin(2, tests), torch.isin(7, tests, invert=True)
    return (*one, torch.isin(x, tests), torch.isin(x, tests, invert=True), torch.isin(x, tests[:0]), torch.isin(x[0, 0], tests))


SOME = torch.tensor([[0.0, 2.0, float("nan")], [4.0, 1.0, 9.0]])


@cases(
    Case(members, ORDERS[0], torch.tensor([[2, 3]]), dynamic={0: [0], 1: [1]}, name="ints"),
    Case(members, ORDERS[0].to(torch.uint8), torch.tensor([2, 9], dtype=torch.uint8), name="bytes", opsets=(9, 20)),
    Case(members, SOME, SOME.flatten()[1:4], name="floats"),
    Case(lambda x, y: torch.isin(x, y), X[0], X[0, :2], emits={"Unsqueeze", "Reshape", "Equal", "ReduceMax"}, name="isin"),
)
def test_members(check):
    check()


@cases(Case(buckets, torch.tensor([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]]), BOUNDS))
def test_buckets(check):
    check()


NAN, INF = float("nan"), float("inf")
WITH_NAN = torch.tensor([[3.0, NAN, 1.0, INF, -INF, 1.0, NAN, 0.0], [NAN, NAN, 2.0, NAN, NAN, NAN, NAN, INF]])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("opset", [9, 10, 11, 20])
def test_nan_is_the_largest(opset: int, dtype: torch.dtype) -> None:
    def ascending(x: torch.Tensor) -> Any:
        return *x.sort(stable=True), x.msort(), x.median(1).values, x.nanmedian(1).values, x.topk(4, largest=False).values

    x = WITH_NAN.to(dtype)
    program = onnxexp.export(ascending, (x,), opset_version=opset, capture="trace")
    torch.testing.assert_close(program(x), ascending(x), equal_nan=True)


@pytest.mark.parametrize("opset", [9, 10, 20])
def test_nan_is_behind_the_smallest_at_any_size(opset: int) -> None:
    def smallest(x: torch.Tensor) -> Any:
        return x.topk(3, largest=False).values, x.kthvalue(2).values

    program = onnxexp.export(smallest, (WITH_NAN,), opset_version=opset, capture="trace", dynamic_axes={"x": [0, 1]})
    for x in (WITH_NAN, WITH_NAN[:1, 2:], WITH_NAN.flip(1)[:, :5]):
        torch.testing.assert_close(program(x), smallest(x), equal_nan=True)
