"""`prim::If`: conditions on values, on sizes, and on facts known at export."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from .running import ALL, SEQUENCES, Program, programs

X, LONG = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]]), torch.arange(15.0).reshape(5, 3)
ROWS = [{0}]
SIGNS = [(-X,), (LONG,), (torch.zeros(1, 3),)]


def by_value(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    return y


def by_size(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        return x[:3]
    return x + 1


def by_size_of_one(x: Tensor) -> Tensor:
    if x.size(0) == 1:
        return x * 10
    return x - x.mean(0, keepdim=True)


def elif_chain(x: Tensor) -> Tensor:
    total = float(x.sum())
    if total > 10.0:
        y = x * 2.0
    elif total > 0.0:
        y = x * 3.0
    elif total == 0.0:
        y = x + 4.0
    else:
        y = x * 5.0
    return y


def nested(x: Tensor) -> Tensor:
    if x.sum() > 0:
        if x.max() > 5:
            y = x.relu()
        else:
            y = x.tanh()
    else:
        y = x.sigmoid()
    return y + 1


def early_return(x: Tensor) -> Tensor:
    if x.max() > 5:
        return x - 5
    y = x + 1
    if y.min() < 0:
        return y.abs()
    return y


def several(x: Tensor) -> tuple[Tensor, Tensor, int]:
    n = 0
    a, b = x, x + 1
    if x.sum() > 0:
        a, b = b, a
        n = 3
    return a, b, n


def number_of_branch(x: Tensor) -> Tensor:
    k = 2
    if x.sum() > 0:
        k = 5
    return x * k


def float_of_branch(x: Tensor) -> Tensor:
    k = 0.5
    if x.sum() > 0:
        k = 1.5
    return x * k + k


def bool_of_branch(x: Tensor) -> Tensor:
    flag = False
    if x.sum() > 0:
        flag = bool(x.max() > 4)
    if flag:
        return x
    return -x


def and_or(x: Tensor) -> Tensor:
    if (x.sum() > 0 and x.max() > 5) or x.size(0) == 1:
        return x * 2
    return x * 3


def negated(x: Tensor) -> Tensor:
    if not bool((x > 0).all()):
        return x.clamp(min=0.0)
    return x.sqrt()


def by_rank(x: Tensor) -> Tensor:
    if x.dim() == 3:
        return x.sum(2)
    if x.dim() == 2:
        return x.sum(1)
    return x


def by_dtype(x: Tensor) -> Tensor:
    if x.dtype == torch.float32:
        return x / 2
    return x.to(torch.float32)


def by_float(x: Tensor) -> Tensor:
    return x.exp() if x.is_floating_point() else x.float()


def raising(x: Tensor) -> Tensor:
    if x.size(1) != 3:
        raise ValueError("three columns are needed")
    if x.size(0) > 100:
        raise RuntimeError(f"too many rows: {x.size(0)}")
    return x * 2


def asserting(x: Tensor) -> Tensor:
    assert x.size(0) > 0, "no rows"
    assert x.dim() == 2
    return x + x


def optional_none(x: Tensor, y: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
    if y is None:
        return x
    return x + y


def optional_given(x: Tensor, y: Optional[Tensor] = None, scale: float = 2.0) -> Tensor:  # noqa: UP045
    if y is not None:
        x = x + y * scale
    return x


def optional_of_branch(x: Tensor) -> Tensor:
    y: Optional[Tensor] = None  # noqa: UP045
    if x.sum() > 0:
        y = x * 2
    if y is not None:
        return y + 1
    return x - 1


def conditional_expression(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x * 3


def list_of_branch(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts = [x + 1]
    else:
        parts = [x - 1]
    return torch.cat(parts)


def longer_list_of_branch(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return torch.cat(parts)


def item_of_list_of_branch(x: Tensor) -> Tensor:
    parts = [x, x + 1]
    if x.sum() > 0:
        parts[0] = x * 2
    return parts[0] + parts[1]


def tuple_of_branch(x: Tensor) -> Tensor:
    pair = (x, x)
    if x.sum() > 0:
        pair = (x + 1, x * 2)
    return pair[0] - pair[1]


def dict_of_branch(x: Tensor) -> dict[str, Tensor]:
    found = {"a": x, "b": x + 1}
    if x.sum() > 0:
        found["a"] = x * 2
    return found


def other_shapes(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x[:1]
    else:
        y = torch.cat([x, x])
    return y * 2


def writing_in_branch(x: Tensor) -> Tensor:
    y = x.clone()
    if x.sum() > 0:
        y[0] = 7.0
    else:
        y[:, 1:] *= 2
    return y


def writing_through_view_in_branch(x: Tensor) -> Tensor:
    y = x + 0
    row = y[0]
    if x.sum() > 0:
        row.add_(1)
    return y


def fails_on_unused_way(x: Tensor) -> Tensor:
    if x.sum() > 0:
        if x.dim() == 2:
            return x + 1
        raise ValueError("two axes are needed")
    return x


class Point(NamedTuple):
    x: Tensor
    y: Tensor


def named_tuple(x: Tensor) -> Tensor:
    point = Point(x, x + 1)
    if x.sum() > 0:
        point = Point(x * 2, point.y)
    return point.x + point.y


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 4), nn.Linear(3, 4)
        self.scale: list[float] = [0.5, 2.0]
        self.names: dict[str, float] = {"a": 1.0, "b": 3.0}

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return self.one(x) * self.scale[0]
        return self.other(x) * self.scale[1] + self.names["b"]


@programs(
    *(
        Program(fn, X, at=SIGNS, dynamic=ROWS, opsets=ALL)
        for fn in [
            by_value, by_size, by_size_of_one, elif_chain, nested, early_return, several, number_of_branch, float_of_branch,
            bool_of_branch, and_or, negated, by_rank, by_dtype, by_float, raising, asserting, optional_none,
            conditional_expression, list_of_branch, item_of_list_of_branch, tuple_of_branch, dict_of_branch,
            writing_in_branch, writing_through_view_in_branch, fails_on_unused_way, named_tuple,
        ]
    ),
    *(Program(fn, X, at=SIGNS, dynamic=ROWS) for fn in [optional_of_branch, other_shapes]),
    Program(longer_list_of_branch, X, at=SIGNS, dynamic=ROWS, opsets=SEQUENCES),
    Program(optional_given, X, X, at=[(LONG, LONG)], dynamic=[{0}, {0}]),
    Program(Gate(), X, at=SIGNS, dynamic=ROWS, holds=["If"]),
)  # fmt: skip
def test_branches(run) -> None:
    run()


def rows_and_whole(x: Tensor) -> list[Tensor]:
    found: list[Tensor] = []
    if x.size(0) > 2:
        found = list(x)
        found.append(x)
    return found


def rows_or_twice(x: Tensor) -> list[Tensor]:
    if x.shape[1] < 5:
        if x.size(0) == 1:
            x = x + 4
        else:
            found = list(x)
            found.append(x)
            return found
    return [x, x]


COUNTS = LONG.to(torch.int32)


@programs(
    *(
        Program(fn, COUNTS, at=[(COUNTS[:4],), (torch.ones(4, 6, dtype=torch.int32),)], dynamic=[{0, 1}], opsets=SEQUENCES)
        for fn in (rows_and_whole, rows_or_twice)
    )
)
def test_a_list_of_tensors_of_several_ranks(run):
    run()


ONES, SCALE = torch.ones(3), torch.arange(3.0)


def default_tensors(x: Tensor, y: Tensor | None = ONES, z: Tensor = SCALE) -> Tensor:
    if y is not None:
        x = x + y
    return x * z


@programs(Program(default_tensors, X, at=[(LONG,)], dynamic=ROWS))
def test_a_tensor_is_the_default_of_a_parameter(run):
    run()
