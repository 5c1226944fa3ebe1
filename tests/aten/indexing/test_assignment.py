"""indexing/assignment.py: writing by index, mask and slice."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r, T = torch.randn, torch.tensor


def assign(write: Callable[..., None]) -> Callable[..., torch.Tensor]:
    """Return a function that applies `write` to a copy of x."""

    def call(x: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        write(x, *args)
        return x

    return call


def column(x, v):
    x[:, 1] = v


def last(x):
    x[..., -1] = 5


def rows(x, v):
    x[1:3] = v


def stepped(x, v):
    x[:, ::2] = v


def up_to(x, v):
    x[:, : v.shape[1]] = v


def at(x, i, v):
    x[i] = v


def columns_at(x, i, v):
    x[:, i] = v


def apart(x, i, j, v):
    x[i, :, j] = v


def at_by_part(x, i):
    """Write values with a leading axis whose size of 1 torch.export cannot infer."""
    x[i, 0, 1] = x[1, 1 : -(x.shape[1] // 2) : 3]


def where(x, m):
    x[m] = 0


def columns_where(x, m):
    x[:, m] = 0


def where_both(x, rows, columns):
    x[rows, columns] = 0


def diagonal(x):
    x.diagonal(1).copy_(torch.ones(3))


@cases(
    Case(assign(column), r(2, 4), r(2), dynamic={0: [0], 1: [0]}, name="column"),
    Case(assign(last), r(3, 4, 5), dynamic={0: [0, 2]}, name="last"),
    Case(assign(at_by_part), r(2, 4, 2, 2), T([1, 0]), dynamic={0: [1]}, opsets=(11, 18, 23), name="at_by_part"),
    Case(assign(rows), r(5, 4), r(2, 4), dynamic={0: [0]}, emits={"Slice", "Concat"}, name="rows"),
    Case(assign(stepped), r(5, 4), r(5, 2), dynamic={0: [0], 1: [0]}, name="stepped"),
    Case(assign(up_to), r(3, 4), r(3, 2), emits={"Slice", "Concat"}, name="up_to"),
    Case(assign(at), r(5, 4), T([0, -2]), r(2, 4), dynamic={0: [0]}, emits={"Unsqueeze", "ScatterND"}, name="at"),
    Case(assign(at), r(5, 4), T([True, False, True, False, False]), r(2, 4), opsets=(11, 13, 20), name="masked_rows"),
    Case(
        assign(where_both), r(3, 4), T([False, True, False]), T([True, False, False, True]), opsets=(9, 11, 17), name="masks_of_1"
    ),
    Case(assign(columns_at), r(3, 4), T([0, 2]), r(3, 2), dynamic={0: [0], 2: [0]}, name="columns_at"),
    Case(assign(apart), r(3, 4, 5), T([0, 2]), T([1, -1]), r(2, 4), name="apart"),
    Case(assign(where), r(5, 4), r(5, 4) > 0, dynamic={0: [0], 1: [0]}, emits={"Where"}, name="where"),
    Case(assign(where), r(5, 4), r(5) > 0, dynamic={0: [0], 1: [0]}, emits={"Unsqueeze", "Where"}, name="where_rows"),
    Case(assign(where), r(5, 4) > 0, r(5) > 0, dynamic={0: [0], 1: [0]}, name="where_bool"),
    Case(assign(columns_where), r(3, 4), T([True, False, False, True]), dynamic={0: [0]}, emits={"Where"}, name="columns_where"),
    Case(assign(diagonal), r(3, 4), name="diagonal"),
    Case(
        lambda x: x.index_put((torch.tensor([0, 0, -1]),), torch.ones(1), accumulate=True),
        r(5, 4),
        dynamic={0: [1]},
        opsets=(9, 11, 13, 14, 20),
        name="accumulate_one_number",
    ),
    Case(
        lambda x, i, v: x.index_put((i, i), v, accumulate=True),
        r(4, 3, 2),
        T([0, 0, -1]),
        r(3, 2),
        dynamic={0: [0, 2], 2: [1]},
        opsets=(9, 13, 20),
        name="accumulate_at_two_axes",
    ),
    Case(
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        r(4, 3),
        T([0, 0]),
        r(2, 3),
        opsets=(9, 11, 13, 16, 20, 23),
        name="accumulate",
    ),
)
def test_assignment(check):
    check()


@cases(
    Case(lambda x: torch.fill(x, 3), r(4, 3), dynamic={0: [0]}, name="fill"),
    Case(lambda x, v: torch.fill(x, v), r(4, 3), T(2), dynamic={0: [0]}, name="fill_tensor"),
    Case(lambda x, v: torch.slice_scatter(x, v, 0, 1, -1), r(4, 3), r(2, 3), emits={"Slice", "Concat"}, name="slice_scatter"),
    Case(lambda x, v: torch.slice_scatter(x, v, 1), r(4, 3), r(4, 3), emits={"Identity"}, name="slice_scatter_whole"),
    Case(lambda x, v: torch.select_scatter(x, v, 1, -1), r(3, 4), r(3), dynamic={0: [0], 1: [0]}, name="select_scatter"),
    *(
        Case(lambda x, v, k=k: torch.diagonal_scatter(x, v, k), r(3, 4), r(n), name=f"diagonal_scatter_{k}")
        for k, n in ((-1, 2), (0, 3), (2, 2))
    ),
)
def test_parts(check):
    check()
