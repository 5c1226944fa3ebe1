"""Writes at run-time indices and slices: from both ends, empty, past the ends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxexp

from .running import Program, programs


def at(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i] = v
    return x


def at_column(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[:, i] = v[0]
    x[..., i] += v[1:2]
    return x


def added_at(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i] += v
    return x


def at_both(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i, 0] = v[0]
    x[0, i] += v[1]
    return x


def of_more_axes(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i] = v.reshape(1, 1, 4)
    return x


def at_number(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[int(i)] = v
    return x


def selected(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x.select(0, i).copy_(v)
    x.select(1, i).mul_(2)
    return x


def one_row(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i : i + 1] = v
    return x


def between(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i - 1 : i + 3] = v
    return x


def to_the_end(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i:] = v
    x[:, i:] = v[:1]
    return x


def from_the_front(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[:i] = v
    return x


def from_row_three_to_the_last(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[3:-1] = v
    x[-4:2] += i
    return x


V = torch.arange(4.0)
AT = [(torch.randn(rows, 4), torch.tensor(i), V) for rows, i in [(5, -1), (5, 0), (5, 3), (7, -4), (4, -1), (1, -1), (1, 0)]]


def written(fn, *captures):
    return Program(
        fn, torch.randn(5, 4), torch.tensor(2), V, at=AT, dynamic=[{0}, None, None], captures=captures, opsets=(9, 11, 20)
    )


@programs(
    *(written(fn, "trace") for fn in [at, added_at]),
    *(written(fn, "export") for fn in [at_number]),
    *(written(fn, "trace", "export") for fn in [one_row, between, from_the_front]),
    *(written(fn, "trace") for fn in [of_more_axes, from_row_three_to_the_last]),
)
def test_rows(run):
    run()


CELLS = [(x, i, v) for x, i, v in AT if -len(x) <= int(i) < len(x)]


@programs(
    *(
        Program(fn, torch.randn(5, 4), torch.tensor(2), V, at=CELLS, dynamic=[{0}, None, None], captures=captures, opsets=(9, 20))
        for fn, captures in [
            (at_column, ("trace",)),
            (at_both, ("trace",)),
            (selected, ("trace", "export")),
            (to_the_end, ("trace", "export")),
        ]
    )
)
def test_rows_and_columns(run):
    run()


def test_a_number_of_a_trace_is_told():
    with pytest.warns(UserWarning, match=r"Converting a tensor to a Python integer at .*x\[int\(i\)\] = v"):
        onnxexp.export(at_number, (torch.randn(5, 4), torch.tensor(2), V), capture="trace")


def doubled_where_positive(x: Tensor) -> Tensor:
    x = x + 0
    x[x > 0] *= 2
    x[x < 0] = x[x < 0] + 1
    return x


ONE_EACH = torch.tensor([[0.0, 3.0], [0.0, -2.0]])
"""Each mask selects one element, which torch assigns without its axis."""


@programs(
    Program(doubled_where_positive, ONE_EACH, at=[(torch.randn(2, 2),), (torch.zeros(3, 2),)], dynamic=[{0}], opsets=(11, 20))
)
def test_a_mask_selects_one_element_of_the_example(run):
    run()


def written_row(x: Tensor, i: Tensor) -> Tensor:
    x = x + 0
    x[i] += 1
    x[i, -i] = x[i, -i] * 2
    x[:, i] = x[:, i].exp()
    return x


def written_where_true(x: Tensor, mask: Tensor) -> Tensor:
    x = x + 0
    x[mask.nonzero()[:, 0]] += 1
    x[mask] = x[mask] * 2
    return x


ONE_TRUE = torch.tensor([False, True, False])


@programs(
    Program(written_row, torch.randn(3, 2, 4), torch.tensor([1]), at=[(torch.randn(2, 2, 7), torch.tensor([1]))],
            dynamic=[{0, 2}, None], captures=("trace", "script"), opsets=(11, 20)),
    Program(written_where_true, torch.randn(3, 4), ONE_TRUE,
            at=[(torch.randn(3, 5), ~ONE_TRUE), (torch.randn(4, 5), torch.ones(4) < 0)],
            dynamic=[{0, 1}, {0}], captures=("trace",), opsets=(11, 20)),
)  # fmt: skip
def test_one_row_is_written_of_any_length(run):
    run()


def rows_of_joined_axes(x: Tensor, mask: Tensor) -> Tensor:
    rows = mask.nonzero()[:, 0]
    x, chosen = x + 0, x.view(-1, 2, 2)[rows]
    x[rows] = -chosen.view(rows.size(0), -1)
    return x


MASK = torch.tensor([True, False, True])


@programs(
    Program(
        rows_of_joined_axes, torch.randn(3, 4), MASK, at=[(torch.randn(4, 4), torch.ones(4, dtype=torch.bool))],
        dynamic=[{0}, {0}], captures=("trace", "script"), opsets=(11, 20),
    )
)  # fmt: skip
def test_values_keep_the_shape_that_a_view_gives_them(run):
    run()


def every_step(x: Tensor, end: Tensor, step: Tensor) -> Tensor:
    x = x + 0
    x[:end:step, 0::step] = 1
    return x


@programs(
    Program(
        every_step, torch.randn(7, 5), torch.tensor(5), torch.tensor(2),
        at=[(torch.randn(7, 5), torch.tensor(7), torch.tensor(3)), (torch.randn(7, 5), torch.tensor(1), torch.tensor(1))],
        captures=("trace",), opsets=(11, 20),
    )
)  # fmt: skip
def test_steps(run):
    run()


def over_one_row(x: Tensor, state: Tensor) -> Tensor:
    made = torch.zeros(2, x.size(0), 3)
    if state.size(0) == 1:
        made[:] = state + made[:]
    return made


@programs(
    Program(
        over_one_row, torch.rand(1, 5), torch.rand(0, 0, 0), at=[(torch.rand(1, 5), torch.rand(1, 1, 3))],
        dynamic=[None, {0, 1, 2}], captures=("script",), opsets=(11, 20),
    )
)  # fmt: skip
def test_an_axis_that_can_only_be_one_row_is_written_over_one_row(run):
    run()
