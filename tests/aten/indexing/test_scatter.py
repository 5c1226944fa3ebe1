"""indexing/scatter.py: writing by an index tensor, and reductions by index."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r, T = torch.randn, torch.tensor
ADDING, REDUCING = (9, 11, 13, 16, 20, 23), (9, 11, 13, 16, 18, 23)


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


def corner(reduce: str) -> Case:
    """Build a case of a reducing scatter into part of a tensor, also at old opsets."""

    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(1, i, v, reduce)

    return Case(call, r(3, 4), T([[0, 0], [1, 1]]), r(2, 2), opsets=(9, 13, 16, 18), name=reduce)


@cases(*map(corner, ("sum", "prod", "mean", "amax", "amin")))
def test_into_a_part(check):
    check()
