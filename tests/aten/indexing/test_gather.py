"""indexing/gather.py: reading by index."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r, T = torch.randn, torch.tensor


def batch_mask(x: torch.Tensor) -> torch.Tensor:
    """Read at indices along both axes, as transformers reads its padding mask."""
    rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1]) + 0
    return x[rows[:, None, None, None], columns[None, None, None, :]]


@cases(
    Case(lambda x, i: x[i], r(5, 3), T([[0, 4], [-1, 2]]), dynamic={0: [0], 1: [0]}, emits={"Gather"}, name="rows"),
    Case(lambda x, i: x[:, i], r(5, 3), T([[0, 2], [-1, 2]]), dynamic={0: [0], 1: [0]}, emits={"Gather"}, name="columns"),
    Case(lambda x: x[:, [0, -1]], r(5, 3), dynamic={0: [0]}, emits={"Gather"}, name="constant"),
    Case(lambda x: x[[0, -1]], r(5, 3), dynamic={0: [0]}, emits={"Gather"}, name="constant_rows"),
    Case(lambda x, i: x[i], r(5, 3), T([1, 0], dtype=torch.int32), emits={"Gather"}, name="int32"),
    Case(lambda x: x[..., 0, None], r(2, 4, 5), dynamic={0: [0]}, emits={"Gather", "Unsqueeze"}, name="ellipsis"),
    Case(
        lambda x, i, j: x[i, j],
        r(5, 3),
        T([[0], [-1]]),
        T([[0, 1]]),
        dynamic={0: [0], 1: [0]},
        emits={"Gather", "Squeeze"},
        name="outer",
    ),
    *(
        Case(read, r(5, 3), dynamic={0: [0]}, opsets=(9, 11, 18, 20), name=name)
        for name, read in {
            "reversed_rows": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
            "every_other_row": lambda x: x[torch.arange(x.shape[0] - 1, -1, -2, dtype=torch.int32)],
            "rows_from_the_end": lambda x: x[torch.arange(-x.shape[0], 0)],
            "last_rows": lambda x: x[torch.arange(x.shape[0] - 6, x.shape[0] - 3)],
        }.items()
    ),
    Case(batch_mask, r(5, 3) > 0, dynamic={0: [0, 1]}, emits={"Unsqueeze"}),
    Case(lambda x, i, j: x[i, j], r(5, 3, 2), T([[0, 2], [-1, 2]]), T([[0], [1]]), dynamic={0: [0], 1: [1]}, name="pairs"),
    Case(lambda x, i: x[:, i, i], r(2, 4, 4), T([0, 3]), dynamic={0: [0], 1: [0]}, name="pairs_behind"),
    Case(lambda x, i, j: x[:, i, j], r(2, 4, 5), T([0, 1, 1]), T([3, 1, -2]), dynamic={0: [0]}, name="consecutive"),
    Case(lambda x, i, j: x[i, :, j], r(2, 4, 5), T([0, 1, 1]), T([3, 1, -2]), dynamic={0: [0]}, name="apart"),
)
def test_index(check):
    check()


@cases(
    Case(lambda x, m: x[m], r(5, 3), r(5) > 0, dynamic={0: [0], 1: [0]}, emits={"Compress"}, name="rows"),
    Case(lambda x, m: x[m], r(5, 3), r(5, 3) > 0, dynamic={0: [0], 1: [0]}, emits={"Reshape", "Compress"}, name="elements"),
    Case(lambda x, m: x[:, m], r(2, 4, 5), r(4, 5) > 0, dynamic={0: [0]}, emits={"Reshape", "Compress"}, name="behind"),
    Case(lambda x, m: x[:, m], r(2, 3, 4), r(3) > 0, dynamic={0: [0]}, emits={"Compress"}, name="middle"),
    Case(lambda x, m: x.masked_select(m), r(3, 4), r(3, 4) > 0, dynamic={0: [0], 1: [0]}, name="masked_select"),
    Case(lambda x, m: x.masked_select(m), r(3, 4), r(4) > 0, dynamic={0: [0]}, name="masked_select_broadcast"),
)
def test_masks(check):
    check()


@cases(
    Case(lambda x, i: x.index_select(1, i), r(2, 4), T([0, 3]), dynamic={0: [0], 1: [0]}, emits={"Gather"}, name="index_select"),
    Case(
        lambda x, i: x.gather(1, i),
        r(2, 4),
        T([[0, 3], [1, 1]]),
        dynamic={0: [0], 1: [0, 1]},
        emits={"GatherElements"},
        name="gather",
    ),
    Case(lambda x, i: x.gather(0, i), r(3, 4, 2), T([[[0, 1], [2, 0]]]), emits={"GatherElements"}, name="gather_first"),
    Case(lambda x, i: x.gather(0, i), r(4), T(2), name="gather_scalar"),
    Case(lambda x, i: x.take(i), r(2, 4), T([[0, -3], [1, 7]]), dynamic={0: [0], 1: [0]}, name="take"),
    Case(lambda x, i: torch.take_along_dim(x, i, 1), r(2, 4), T([[0, 3]]), name="take_along_dim"),
    Case(lambda x, i: torch.take_along_dim(x, i), r(2, 4), T([0, 3]), name="take_along_dim_flat"),
    Case(
        lambda x, i: torch.take_along_dim(x, i, 1),
        r(3, 4),
        T([[0, 3]]),
        dynamic={0: [0, 1], 1: [1]},
        name="take_along_dim_of_any",
    ),
    *(
        Case(
            lambda x, i: torch.take_along_dim(x, i, 1),
            r(3, size),
            T([[0, 3, -7]]),
            dynamic=dynamic,
            name="take_along_dim_wrapped",
        )
        for size in (1, 3)
        for dynamic in ({}, {0: [0, 1]})
    ),
    Case(torch.nn.Embedding(5, 4, padding_idx=0), T([[0, 3]]), dynamic={0: [0, 1]}, emits={"Gather"}),
)
def test_gather(check):
    check()


DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32)


def where_masked(x: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Read and write where a mask is true; elsewhere, indices may be out of range."""
    found = (
        torch.ops.aten._unsafe_masked_index(x, mask, [rows, columns], -3),
        torch.ops.aten._unsafe_masked_index(x, mask[0], [None, columns[0]], 0),
    )
    added = torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [rows, columns], mask.to(x.dtype) + 1)
    return (*found, added)


ROWS, COLUMNS = torch.tensor([[-1], [2], [99], [0]]), torch.tensor([[4, -5, 3, -99, 0]])
MASK = (ROWS < 3) & (COLUMNS > -6) & (torch.arange(20).view(4, 5) % 7 != 5)


@cases(
    Case(where_masked, torch.randn(3, 5), MASK, ROWS, COLUMNS, dynamic={0: [0, 1]}, opsets=(16, 18, 23)),
    Case(where_masked, torch.randn(3, 5), MASK, ROWS, COLUMNS, opsets=(9, 11, 13), name="masked at first opsets"),
    *(
        Case(where_masked, torch.randint(9, (3, 5)).to(d), MASK, ROWS, COLUMNS, opsets=(16, 20), name=f"masked {d}")
        for d in DTYPES
    ),
)
def test_masked_index(check):
    check()
