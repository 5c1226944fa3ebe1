# ruff: noqa: UP006, UP035 - TorchScript reads this file, and not all of today's Python
"""Scripts that ONNX cannot express, most of them because of lists."""

from __future__ import annotations

from typing import Dict, List

import torch
from torch import Tensor


def nested_lists(x: Tensor) -> Tensor:
    outer: list[list[Tensor]] = []
    for i in range(x.size(0)):
        inner: list[Tensor] = []
        for j in range(i):
            inner.append(x[j])
        outer.append(inner)
    return torch.stack(outer[-1])


def tuples_in_list(x: Tensor) -> Tensor:
    pairs: list[tuple[Tensor, Tensor]] = []
    for i in range(x.size(0)):
        pairs.append((x[i], x[i] * 2))
    return pairs[-1][0]


def strings_in_list(x: Tensor) -> int:
    words: list[str] = []
    for _ in range(x.size(0)):
        words.append("word")
    return len(words)


def text_of_branch(x: Tensor) -> Tensor:
    mode = "a"
    if x.sum() > 0:
        mode = "b"
    if mode == "a":
        return x
    return -x


def keys_of_loop(x: Tensor) -> Tensor:
    found: dict[int, Tensor] = {}
    for i in range(x.size(0)):
        found[i] = x[i]
    return found[0]


def dtypes_of_branches(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x.to(torch.int64)
    else:
        y = x
    return y


def numbers_of_unknown_length(x: Tensor) -> list[int]:
    found: list[int] = []
    for i in range(x.size(0)):
        found.append(i)
    return found


def dtypes_of_rounds(x: Tensor) -> Tensor:
    y = torch.zeros(3)
    for i in range(x.size(0)):
        y = (y + x[i]).to(torch.float64)
    return y


def sorted_list(x: Tensor) -> Tensor:
    sizes = [x.size(0), 2]
    sizes.sort()
    return x.new_zeros(sizes)


def dict_of_value(x: Tensor) -> Tensor:
    table = {0: x, 1: -x}
    return table[int(x.min())]


def always_raising(x: Tensor) -> Tensor:
    if x.dim() == 2:
        raise ValueError("one axis only")
    return x


@torch.jit.script
class Accumulator:
    def __init__(self, start: Tensor):
        self.total = start

    def add(self, x: Tensor) -> None:
        self.total = self.total + x


def user_class(x: Tensor) -> Tensor:
    accumulator = Accumulator(x)
    accumulator.add(x)
    return accumulator.total


def random_of_python(x: Tensor) -> Tensor:
    return x[torch.randperm(x.size(0))].sort(0)[0][: int(x.max())]


def to_python_list(x: Tensor) -> Tensor:
    numbers: list[list[float]] = x.tolist()
    return x * len(numbers)


# More about lists


def lists_in_list(x: Tensor) -> Tensor:
    pairs: List[List[int]] = []
    for i in range(x.size(0)):
        pairs.append([i, i])
    return torch.tensor(pairs)


def dicts_in_list(x: Tensor) -> Tensor:
    found: List[Dict[str, Tensor]] = []
    for i in range(x.size(0)):
        found.append({"a": x[i]})
    return found[0]["a"]


def rows(x: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[: i + 1].sum(0, keepdim=True))
        if x[i].sum() > 100:
            found.append(x[:2])
    return found


def counts(x: Tensor) -> List[int]:
    found: List[int] = []
    for i in range(x.size(0)):
        if x[i].sum() > -100:
            found.append(i)
    return found


def searched_list(x: Tensor) -> Tensor:
    return x if 3 in counts(x) else -x


def sum_of_list(x: Tensor) -> Tensor:
    return x * sum(counts(x))


def compared_list(x: Tensor) -> Tensor:
    return x if counts(x) == [0, 1] else -x


def list_as_size(x: Tensor) -> Tensor:
    return torch.zeros(counts(x))


def list_for_operator(x: Tensor) -> Tensor:
    return torch.hstack(rows(x))


def repeated_list(x: Tensor) -> Tensor:
    return torch.cat([x] * x.size(0))


def sorted_values(x: Tensor) -> Tensor:
    numbers = [float(x[0, 0]), float(x[0, 1])]
    numbers.sort()
    return x * numbers[0]


def unpacked_rows(x: Tensor) -> Tensor:
    a, b = x.unbind(0)
    return a + b


def parts_by_number(x: Tensor) -> Tensor:
    return torch.tensor_split(x, int(x.size(0)))[0]


def step_by_value(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i in range(0, 10, x.size(0)):
        total = total + i
    return total
