# ruff: noqa: B905, PLC0206, SIM114, SIM118, UP006, UP045 - TorchScript reads this file, and not all of today's Python
"""Lists, tuples, dicts and strings, of known and unknown length, and in modules."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple  # noqa: UP035 - TorchScript reads these

import pytest
import torch
from torch import Tensor, nn

import onnxexp

from .running import ALL, SEQUENCES, Program, programs

X, MORE = torch.arange(12.0).reshape(3, 4) - 5, torch.arange(20.0).reshape(5, 4) / 3
ROWS = [{0}]


def comprehension(x: Tensor) -> Tensor:
    return torch.stack([x[i] * i for i in range(3)])


def zipped(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for a, b in zip([x[0], x[1]], [1.0, 2.0]):
        total = total + a * b
    return total


def list_methods(x: Tensor) -> Tensor:
    parts = [x, x + 1]
    parts.append(x * 2)
    parts.insert(0, x - 1)
    parts.extend([x, x])
    last = parts.pop()
    parts.reverse()
    parts[1] = parts[0] + last
    del parts[0]
    return torch.cat(parts[:2] + parts[-1:])


def aliased(x: Tensor) -> Tensor:
    parts = [x]
    same = parts
    same.append(x * 2)
    return torch.cat(parts)


def of_numbers(x: Tensor) -> Tensor:
    sizes = [x.size(0), 2]
    sizes.append(sizes[0] * 2)
    return x.new_ones(sizes) * sum(sizes) + max(sizes) - min(sizes) + len(sizes)


def shapes_compared(x: Tensor) -> Tensor:
    y = x + 1
    if x.shape == y.shape and list(x.shape[1:]) == [4]:
        return x * 2
    return x


def contains(x: Tensor) -> Tensor:
    if x.size(1) in [3, 4] and "a" in {"a": 1}:
        return x * 2
    return x


def unpacked(x: Tensor) -> Tensor:
    a, (b, c) = x, (x + 1, x.size(0))
    rows, columns = x.shape
    return a + b * c + rows * columns


def tuples_of_tuples(x: Tensor) -> Tuple[Tensor, Tuple[Tensor, List[Tensor]]]:
    pair = (x, x * 2)
    return pair[0], (pair[1], [pair[0] + 1, pair[1] + 1])


def dict_methods(x: Tensor) -> Tensor:
    table: Dict[str, Tensor] = {"a": x}
    table["b"] = x + 1
    table.update({"c": x * 2})
    total = torch.zeros_like(x)
    for key in table.keys():
        if key != "b":
            total = total + table[key]
    for value in table.values():
        total = total - value * 0.5
    for key, value in table.items():
        if key == "c":
            total = total + value
    return total + len(table) + table.pop("a")


def dict_of_numbers(x: Tensor) -> Tensor:
    scale = {"small": 0.5, "large": 2}
    return x * scale["small"] + scale["large"]


def optional_in_dict(table: Dict[str, Tensor], x: Tensor) -> Tensor:
    y: Optional[Tensor] = table.get("extra")
    if y is None:
        y = table["bias"]
    return x + y


def list_in(parts: List[Tensor]) -> List[Tensor]:
    parts = [part * 2 for part in parts]
    parts.append(parts[0] + parts[1])
    return parts


def strings(x: Tensor, mode: str = "double") -> Tensor:
    name = "do" + "uble"
    if mode == name and not mode.startswith("x"):
        return x * 2
    return x


def formatted_keys(x: Tensor) -> Tensor:
    table = {"a3": x, "b": x * 2}
    count = 3
    return table["a%d" % count] + table["a{}".format(x.dim() + 1)]  # noqa: UP031, UP032


def index_of_value(x: Tensor) -> Tensor:
    parts = [x, x * 2, x * 3]
    return parts[int((x > 0).sum()) % 3]


def number_of_value(x: Tensor) -> Tensor:
    scales = [1, 10, 100]
    return x * scales[int((x > 0).sum()) % 3]


def pieces_of_unknown_number(x: Tensor) -> Tensor:
    pieces = x.split(2)
    return pieces[0].sum(0) + pieces[-1].sum(0) * len(pieces)


def last_row(x: Tensor) -> Tensor:
    rows = x.unbind(0)
    return rows[-1] - rows[0]


def joined_again(x: Tensor) -> Tensor:
    return torch.cat(x.split(2)) + torch.stack(x.unbind(0))


def popped_in_loop(x: Tensor) -> Tensor:
    waiting = [x[0], x[1]]
    total = torch.zeros(4)
    for i in range(x.size(0)):
        waiting.append(x[i] * i)
        total = total + waiting.pop(0)
    return total + waiting[0]


def two_lists_in_loop(x: Tensor) -> Tuple[Tensor, Tensor]:
    positive: List[Tensor] = [x[0]]
    negative: List[Tensor] = [x[0]]
    for row in x:
        if row.sum() > 0:
            positive.append(row)
        else:
            negative.append(-row)
    return torch.stack(positive), torch.stack(negative)


def optional_in_loop(x: Tensor) -> Tensor:
    best: Optional[Tensor] = None
    for i in range(x.size(0)):
        if best is None:
            best = x[i]
        elif x[i].sum() > best.sum():
            best = x[i]
    assert best is not None
    return best


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({"one": nn.Linear(4, 4), "two": nn.Linear(4, 4)})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4) * i) for i in range(3)])
        self.sizes = [1, 2, 3]
        self.config = {"scale": 2.0}
        self.maybe: Optional[Tensor] = None

    def forward(self, x: Tensor) -> Tensor:
        for name, block in self.blocks.items():
            x = block(x) if name == "one" else block(x).relu()
        for size in self.sizes:
            x = x + size
        if self.maybe is not None:
            x = x + 1
        for weight in self.weights:
            x = x + weight
        return self.helper(x) * self.config["scale"]

    def helper(self, x: Tensor) -> Tensor:
        return x / len(self.sizes)


def first_pieces(x: Tensor) -> Tensor:
    return x.split(2)[0] * 2


def last_piece(x: Tensor) -> Tensor:
    return x.split(x.size(1), 0)[-1]


def written_pieces(x: Tensor) -> Tensor:
    y = x + 1
    y.split(2)[-1].mul_(3)
    y.split(2)[0][0] = -1.0
    return y


def pieces_of_another_list(x: Tensor) -> Tensor:
    parts = list(x.split(2))
    parts[0] = x[:1]
    return torch.cat([parts[0], parts[-1]])


def chunks(x: Tensor) -> Tensor:
    parts = torch.chunk(x, 3)
    total = x.new_zeros(4)
    for part in parts:
        total = total + part.sum(0) * part.size(0)
    return torch.cat([total[None] + len(parts), parts[-1], x.chunk(4)[0]])


def strides(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x.new_ones(x.stride(0), x.stride(-1)), x.as_strided((x.size(1), x.size(0)), (x.stride(1), x.stride(0)))


@programs(
    *(
        Program(fn, X, at=[(MORE,)], dynamic=ROWS, opsets=ALL)
        for fn in [
            comprehension, zipped, list_methods, aliased, of_numbers, shapes_compared, contains, unpacked, tuples_of_tuples,
            dict_methods, dict_of_numbers, strings, formatted_keys, index_of_value, number_of_value,
        ]
    ),
    *(
        Program(fn, X, at=[(MORE,), (X[:2] * 3,)], dynamic=ROWS)
        for fn in [pieces_of_unknown_number, joined_again]
    ),
    *(
        Program(fn, X, at=[(MORE,), (-MORE,)], dynamic=ROWS, opsets=SEQUENCES)
        for fn in [popped_in_loop, two_lists_in_loop]
    ),
    *(Program(fn, X, at=[(X[:rows],) for rows in (0, 1, 2)], dynamic=ROWS) for fn in (first_pieces, last_piece)),
    Program(first_pieces, X.to(torch.int8), at=[(X.to(torch.int8)[:1],)], dynamic=ROWS, opsets=ALL, name="first_pieces of int8"),
    Program(written_pieces, X, at=[(MORE,), (X[:1],), (X[:2],)], dynamic=ROWS, opsets=(9, 20)),
    Program(pieces_of_another_list, X, at=[(MORE,), (X[:1],), (X[:2],)], dynamic=ROWS, opsets=SEQUENCES),
    Program(chunks, X, at=[(MORE,), *((torch.rand(rows, 4),) for rows in (0, 1, 2, 4, 7, 9))], dynamic=ROWS),
    Program(strides, X, at=[(MORE,), (X[:, :1].clone(memory_format=torch.contiguous_format),), (MORE[:1],)], dynamic=[{0, 1}]),
    Program(last_row, X, at=[(MORE,), (X[:2] * 3,)], dynamic=ROWS, opsets=ALL),
    Program(optional_in_loop, X, at=[(MORE,), (-MORE,)], dynamic=ROWS),
    Program(optional_in_dict, {"bias": X + 1}, X, at=[({"bias": X}, X)]),
    Program(optional_in_dict, {"bias": X + 1, "extra": X}, X, at=[({"bias": X, "extra": X * 2}, X)]),
    Program(list_in, [X, X + 1], at=[([X * 2, X],)]),
    Program(Holder(), X, at=[(MORE,)], dynamic=ROWS),
)  # fmt: skip
def test_lists(run) -> None:
    run()


def test_a_stride_of_a_view_is_refused() -> None:
    def model(x: Tensor) -> Tensor:
        return x.new_ones(x.t().stride(0))

    with pytest.raises(
        onnxexp.CaptureError, match="the program reads a stride, and ONNX has none; to fix this, compute it from sizes"
    ):
        onnxexp.export(model, (X,), capture="script")
