"""`prim::Loop`: for, while, break, continue and return, unrolled or not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .running import ALL, SEQUENCES, Program, programs

X, LONG, ONE = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]]), torch.arange(15.0).reshape(5, 3) / 7, torch.ones(1, 3)
ROWS = [{0}]
MORE = [(LONG,), (ONE,), (-LONG,)]
COUNT = [None, "n"]


def counted(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + i
    return x


def from_two(x: Tensor, n: int) -> Tensor:
    for i in range(2, n, 3):
        x = x * 0.5 + i
    return x


def downwards(x: Tensor, n: int) -> Tensor:
    for i in range(n, 0, -1):
        x = x / 2 - i
    return x


def over_rows(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i in range(x.size(0)):
        total = total + x[i] * (i + 1)
    return total


def over_tensor(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        total = total * 0.5 + row
    return total


def enumerated(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i, row in enumerate(x):
        total = total + row * i
    return total


def while_small(x: Tensor) -> Tensor:
    while x.abs().sum() < 100:
        x = x * 2 + 1
    return x


def while_counting(x: Tensor) -> tuple[Tensor, int]:
    i = 0
    while i < x.size(0):
        x = x + i
        i += 2
    return x, i


def breaking(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        if x[i].sum() > 1:
            break
        x = x + 0.25
    return x


def continuing(x: Tensor) -> Tensor:
    total = torch.zeros(1)
    for i in range(x.size(0)):
        if x[i].sum() < 0:
            continue
        total = total + x[i].sum()
    return total


def returning(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        if x[i].sum() > 1:
            return x[i] * 10
    return x.sum(0)


def breaking_while(x: Tensor) -> tuple[Tensor, int]:
    i = 0
    while True:
        x = x * 1.5 + 0.1
        i += 1
        if i >= 6 or x.max() > 20:
            break
    return x, i


def two_deep(x: Tensor) -> Tensor:
    total = torch.zeros(1)
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            total = total + x[i, j] * (i + 2 * j)
    return total


def inner_of_outer(x: Tensor) -> Tensor:
    total = torch.zeros(1)
    for i in range(x.size(0)):
        for j in range(i):
            total = total + x[i, j % 3]
    return total


def fibonacci(x: Tensor, n: int) -> Tensor:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return x * a


def float_state(x: Tensor, n: int) -> Tensor:
    k = 1.0
    for _ in range(n):
        k = k * 0.5 + 0.25
    return x * k


def bool_state(x: Tensor) -> Tensor:
    seen = False
    for i in range(x.size(0)):
        if x[i, 0] > 0:
            seen = True
    return x if seen else -x


def branch_in_loop(x: Tensor) -> Tensor:
    y = torch.zeros(3)
    for i in range(x.size(0)):
        if i % 2 == 0:
            y = y + x[i]
        else:
            y = y - x[i]
    return y


def growing(x: Tensor) -> Tensor:
    y = x[:1]
    for i in range(x.size(0)):
        y = torch.cat([y, x[i : i + 1] * i])
    return y


def widening(x: Tensor) -> Tensor:
    y = torch.zeros(1)
    for i in range(x.size(0)):
        y = y + x[i]
    return y


def writing_rows(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(x.size(0)):
        y[i] = x[i] * i
    return y


def adding_to_rows(x: Tensor) -> Tensor:
    y = x.clone()
    for i in range(x.size(0)):
        y[i, 1:] += i
        y[i].mul_(2)
    return y


def prefix_sums(x: Tensor) -> Tensor:
    y = x.clone()
    for i in range(1, x.size(0)):
        y[i] += y[i - 1]
    return y


def in_place_state(x: Tensor) -> Tensor:
    y = torch.zeros(3)
    for i in range(x.size(0)):
        y.add_(x[i])
    return y


def appended(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i] * i)
    return torch.stack(found)


def appended_pieces(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[: i + 1])
    return torch.cat(found)


def appended_sometimes(x: Tensor) -> Tensor:
    found = [x[0]]
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            found.append(x[i])
    return torch.stack(found)


def appended_numbers(x: Tensor) -> Tensor:
    found: list[int] = []
    for i in range(x.size(0)):
        found.append(i * i)
    return torch.tensor(found)


def last_of_list(x: Tensor) -> Tensor:
    found = [x[0]]
    for i in range(x.size(0)):
        found.append(found[-1] + x[i])
    return found[-1] + found[0]


def written_list(x: Tensor) -> Tensor:
    found = [x[0], x[0] * 2, x[0] * 3]
    for i in range(x.size(0)):
        found[i % 3] = x[i]
    return torch.stack(found)


def length_of_list(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for row in x:
        if row.sum() > 0:
            found.append(row)
    return x * len(found)


def unbound(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for row in x.unbind(0):
        found.append(row.cumsum(0))
    return torch.stack(found)


def pieces(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for piece in x.split(2):
        found.append(piece.sum(0))
    return torch.stack(found)


# Lists that a loop only appends to: stacked by the loop itself, at every opset


def appended_floats(x: Tensor) -> Tensor:
    found: list[float] = []
    for i in range(x.size(0)):
        found.append(float(x[i].sum()))
    return torch.tensor(found)


def appended_after_some(x: Tensor) -> Tensor:
    found = [x[0] * 10, x[0] * 20]
    for i in range(1, x.size(0)):
        found.append(x[i])
    return torch.stack(found)


def appended_in_turn(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i])
    for i in range(x.size(0)):
        found.append(-x[i] * i)
    return torch.stack(found)


def appended_twice(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i])
        found.append(x[i] * 2)
    return torch.stack(found)


def joined_along(x: Tensor) -> tuple[Tensor, Tensor]:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i].reshape(1, 3) * torch.ones(2, 1))
    return torch.cat(found), torch.cat(found, 1)


def stacked_along(x: Tensor) -> tuple[Tensor, Tensor]:
    found: list[Tensor] = []
    for row in x:
        found.append(torch.outer(row, row))
    return torch.stack(found, 1), torch.stack(found, -1)


def read_after(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i] * i)
    total = found[0] - found[-1]
    for row in found:
        total = total * 0.5 + row
    return total


def written_after(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i] * 2)
    found[0].add_(10)
    for i in range(len(found)):
        found[i][0] = 7.0
    return torch.stack(found)


def lengths_after(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0) // 2):
        found.append(x[2 * i])
    return x * len(found)


def states_of_cell(x: Tensor) -> tuple[Tensor, Tensor]:
    state = torch.zeros(3)
    found: list[Tensor] = []
    for row in x:
        state = torch.tanh(state * 0.5 + row)
        found.append(state)
    return torch.stack(found), state


def broken_off(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i])
        if x[i].sum() > 3:
            break
    return torch.stack(found)


def rows_of_a_matrix(x: Tensor) -> Tensor:
    for row in x.unbind(0):
        row.mul_(2)
    return x + 1


def sizes_of_outside(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    for column in x.unbind(1):
        found.append(column.cumsum(0))
    found.append(x[:, 0])
    return torch.stack(found, 1)


def two_lists(x: Tensor) -> Tensor:
    sums, rows = [x[0].sum()], [x[0]]
    for i in range(x.size(0)):
        sums.append(x[i].sum())
        rows.append(x[i])
    return torch.stack(sums).reshape(-1, 1) + torch.stack(rows)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x).relu() + i
        return x


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(1, 4)
        found: list[Tensor] = []
        for i in range(x.size(0)):
            h = self.cell(x[i : i + 1], h)
            found.append(h)
        return torch.cat(found), h


class Counter(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        for i in range(x.size(0)):
            self.count = self.count + x[i].sum()
        return x + self.count


@programs(
    *(Program(fn, X, 3, at=[(X, 0), (X, 1), (X, 8)], dynamic=COUNT, holds=["Loop"], opsets=ALL)
      for fn in [counted, from_two, downwards, fibonacci, float_state]),
    *(Program(fn, X, 3) for fn in [counted, from_two, downwards, fibonacci, float_state]),
    *(
        Program(fn, X, at=MORE, dynamic=ROWS, holds=["Loop"], opsets=ALL)
        for fn in [
            over_rows, over_tensor, enumerated, while_counting, breaking, continuing, returning, breaking_while, two_deep,
            inner_of_outer, bool_state, branch_in_loop, growing, widening, writing_rows, adding_to_rows, prefix_sums,
            in_place_state,
        ]
    ),
    Program(while_small, X, at=[(LONG + 1,)], dynamic=ROWS, holds=["Loop"]),
    *(
        Program(fn, X, at=MORE, dynamic=ROWS, opsets=SEQUENCES)
        for fn in [
            appended_pieces, appended_sometimes, last_of_list, written_list, length_of_list,
        ]
    ),
    *(
        Program(fn, X, at=MORE, dynamic=ROWS, holds=["Loop"], opsets=ALL)
        for fn in [
            appended, appended_numbers, appended_floats, unbound, appended_after_some, appended_in_turn, appended_twice,
            joined_along, stacked_along, read_after, written_after, lengths_after, states_of_cell, broken_off, rows_of_a_matrix,
            two_lists,
        ]
    ),
    Program(sizes_of_outside, X, at=MORE, dynamic=ROWS, opsets=ALL),
    Program(pieces, X, at=MORE, dynamic=ROWS),
    *(Program(fn, X) for fn in [appended, over_rows, writing_rows, two_deep, pieces, unbound, growing]),
    Program(Layers(), X, at=MORE, dynamic=ROWS),
    Program(Cell(), X, at=MORE, dynamic=ROWS, opsets=SEQUENCES),
)  # fmt: skip
def test_loops(run) -> None:
    run()
