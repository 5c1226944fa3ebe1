"""indexing/scatter.py, indexing/assignment.py: writing by index."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r, T = torch.randn, torch.tensor
ADDING, REDUCING = (9, 11, 13, 16, 20, 23), (9, 11, 13, 16, 18, 23)


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
    Case(lambda x, i, v: x.index_put((i,), v, accumulate=True), r(4, 3), T([0, 0]), r(2, 3), opsets=ADDING, name="accumulate"),
)
def test_assignment(check):
    check()


def scatter_reduce(reduce: str, include_self: bool, dtype: torch.dtype = torch.float32) -> Case:
    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(1, i, v, reduce, include_self=include_self)

    x, v = (r(2, 4) * 9).to(dtype), (r(2, 2) * 9).to(dtype)
    return Case(call, x, T([[0, 0], [1, 1]]), v, opsets=REDUCING, name=f"{reduce}_{include_self}_{dtype}")


@cases(
    Case(lambda x, i, v: x.scatter(1, i, v), r(2, 4), T([[0, 3], [1, 2]]), r(2, 2), emits={"ScatterElements"}, name="scatter"),
    Case(
        lambda x, i, v: x.scatter(1, i, v),
        r(2, 4),
        T([[0, 3], [1, 2]]),
        r(2, 3),
        emits={"Slice", "ScatterElements"},
        name="larger_source",
    ),
    Case(lambda x, i: x.scatter(1, i, 3.0), r(2, 4), T([[0, 3], [1, 2]]), emits={"ScatterElements"}, name="number"),
    Case(lambda x, i: x.scatter(0, i, 3.0), r(4), T(1), name="0d"),
    Case(lambda x, i, v: x.scatter_add(1, i, v), r(2, 4), T([[0, 0], [1, 1]]), r(2, 2), opsets=ADDING, name="scatter_add"),
    Case(lambda x, i: x.scatter(1, i, 2.0, reduce="multiply"), r(2, 4), T([[0, 0], [1, 1]]), opsets=ADDING, name="multiply"),
    *(scatter_reduce(reduce, include) for reduce in ("sum", "prod", "mean", "amax", "amin") for include in (True, False)),
    scatter_reduce("amax", False, torch.int64),
    scatter_reduce("mean", True, torch.int64),
)
def test_scatter(check):
    check()


@cases(
    Case(
        lambda x, i, v: x.index_copy(0, i, v),
        r(4, 3),
        T([0, 2]),
        r(2, 3),
        dynamic={0: [0]},
        emits={"Unsqueeze", "ScatterND"},
        name="index_copy",
    ),
    Case(lambda x, i, v: x.index_copy(1, i, v), r(4, 3), T([0, 2]), r(4, 2), dynamic={0: [0], 2: [0]}, name="index_copy_columns"),
    Case(
        lambda x, start, v: x.index_copy(2, torch.arange(v.shape[2]) + start, v),
        r(2, 3, 9, 4),
        torch.tensor(5),
        r(2, 3, 2, 4),
        dynamic={0: [0], 2: [0, 2]},
        opsets=(14, 24),
        name="index_copy_a_range",
    ),
    Case(
        lambda x, start, v: x.index_copy(1, torch.arange(2) + start, v),
        torch.randint(9, (2, 5)),
        torch.tensor([3]),
        torch.randint(9, (2, 2)),
        dynamic={0: [0], 2: [0]},
        opsets=(24,),
        name="index_copy_a_range_of_two",
    ),
    Case(
        lambda x, start, v: x.index_copy(1, torch.arange(2) + start, v),
        r(2, 5),
        torch.tensor([3]),
        r(2, 2),
        opsets=(24,),
        emits={"Expand", "TensorScatter"},
        name="index_copy_a_range_of_fixed_size",
    ),
    Case(lambda x, i: x.index_fill(1, i, 2.5), r(4, 3), T([0, -1]), dynamic={0: [0], 1: [0]}, name="index_fill"),
    Case(
        lambda x, i: x.index_fill(0, i, 2), torch.randint(4, (4, 3)), T([0, -1]), dynamic={0: [0], 1: [0]}, name="index_fill_rows"
    ),
    Case(
        lambda x, i, v: x.index_add(0, i, v, alpha=2),
        r(4, 3),
        T([0, 0]),
        r(2, 3),
        dynamic={0: [0]},
        opsets=ADDING,
        name="index_add",
    ),
    Case(
        lambda x, i, v: x.index_add(1, i, v),
        r(4, 3),
        T([0, 0]),
        r(4, 2),
        dynamic={0: [0], 2: [0]},
        opsets=ADDING,
        name="index_add_columns",
    ),
    Case(lambda x, i, v: x.index_reduce(1, i, v, "amin"), r(4, 3), T([0, 0]), r(4, 2), opsets=REDUCING, name="index_reduce"),
    Case(
        lambda x, m, v: x.masked_scatter(m, v),
        r(4, 3),
        r(4, 3) > 0,
        r(12),
        dynamic={0: [0], 1: [0]},
        opsets=(11, 13, 20),
        name="masked_scatter",
    ),
    Case(lambda x, i, v: x.put(i, v), r(4, 3), T([0, 7]), r(2), name="put"),
)
def test_slices_by_index(check):
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


def corner(reduce: str) -> Case:
    """Build a case of a reducing scatter into part of a tensor, also at old opsets."""

    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(1, i, v, reduce)

    return Case(call, r(3, 4), T([[0, 0], [1, 1]]), r(2, 2), opsets=(9, 13, 16, 18), name=reduce)


@cases(*map(corner, ("sum", "prod", "mean", "amax", "amin")))
def test_into_a_part(check):
    check()
