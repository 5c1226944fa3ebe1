"""Reading by index, traced and scripted, with torch.onnx's unsupported patterns."""

from __future__ import annotations

import torch
from torch import Tensor

from .running import ALL, OPSETS, Program, programs

X, MORE = torch.arange(60.0).reshape(3, 4, 5), torch.arange(100.0).reshape(5, 4, 5)
BOTH = ("trace", "script")


def one(x: Tensor) -> Tensor:
    return x[1]


def from_the_end(x: Tensor) -> Tensor:
    return x[-1, -2]


def sliced(x: Tensor) -> Tensor:
    return x[1:, :2, ::2]


def sliced_from_the_end(x: Tensor) -> Tensor:
    return x[-2:, :-1]


def head(x: Tensor) -> Tensor:
    return x[:4]


def ellipsis(x: Tensor) -> Tensor:
    return x[..., 1:3]


def new_axes(x: Tensor) -> Tensor:
    return x[:, None, 1, :, None]


def by_tensor(x: Tensor) -> Tensor:
    return x[torch.tensor([2, 0, 1, 1])]


def by_matrix(x: Tensor) -> Tensor:
    return x[:, torch.tensor([[0, 1], [3, 2]])]


def negative(data: Tensor) -> Tensor:
    return data[torch.tensor([[1, 2], [2, -3]]), torch.tensor([-2, 3])]


def not_consecutive(x: Tensor) -> Tensor:
    return x[torch.tensor([0, 2]), :, torch.tensor([1, 4])]


def with_slice(x: Tensor) -> Tensor:
    return x[torch.tensor([0, 2]), 1:3]


def by_mask(x: Tensor) -> Tensor:
    return x[x > 7]


def by_row_mask(x: Tensor) -> Tensor:
    return x[x.sum((1, 2)) > 100]


def by_result(x: Tensor) -> Tensor:
    return x[x[:, 0, 0].argsort(descending=True)]


def selected(x: Tensor) -> Tensor:
    return x.select(1, -1).narrow(1, 1, 2)


def gathered(x: Tensor) -> Tensor:
    return x.gather(2, x.argmax(2, keepdim=True))


def picked(x: Tensor) -> Tensor:
    return x.index_select(0, torch.tensor([1, 1, 0]))


def taken(x: Tensor) -> Tensor:
    return torch.take(x, torch.tensor([0, 7, -1]))


def found(x: Tensor) -> Tensor:
    return torch.nonzero(x > 30)


def last_by_size(x: Tensor) -> Tensor:
    return x[x.size(0) - 1, : x.size(1) // 2]


def windows(x: Tensor) -> Tensor:
    return x.unfold(1, 2, 1)


def pieces(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=1)
    return a * b


def flat(x: Tensor) -> Tensor:
    return x.reshape(x.size(0), -1)[:, 3]


def between_meeting_limits(x: Tensor) -> Tensor:
    return x[-1:1, 0] + 1


def between_computed_limits(x: Tensor) -> Tensor:
    return x[-(x.shape[0] // 2) : 1] + 1


def even_between_meeting_limits(x: Tensor) -> Tensor:
    return torch.cat([x, x])[-2:2] + 1


@programs(
    *(
        Program(fn, X, at=[(MORE,)], dynamic=[{0}], captures=BOTH, opsets=OPSETS if fn in (sliced, by_result) else ALL)
        for fn in [
            one, from_the_end, sliced, sliced_from_the_end, head, ellipsis, new_axes, by_tensor, by_matrix, negative,
            not_consecutive, with_slice, by_mask, by_row_mask, by_result, selected, gathered, picked, taken, found, last_by_size,
            windows, pieces, flat,
        ]
    ),
    *(
        Program(fn, X, at=[(X[:rows],) for rows in (0, 1, 2)], dynamic=[{0}], captures=BOTH, opsets=ALL)
        for fn in (between_meeting_limits, between_computed_limits, even_between_meeting_limits)
    ),
)  # fmt: skip
def test_reads(run) -> None:
    run()
