"""What TorchScript can say and ONNX cannot: an error with the user's line, never a crash and never a guess."""

from __future__ import annotations

import warnings
from typing import Optional

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp.errors import OnnxExporterError

X = torch.arange(6.0).reshape(2, 3)


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


def none_or_tensor(x: Tensor) -> Optional[Tensor]:  # noqa: UP045
    if x.sum() > 0:
        return x
    return None


def list_of_unknown_length(x: Tensor) -> list[Tensor]:
    found: list[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i])
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


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (nested_lists, "list"),
        (tuples_in_list, "holds a tuple"),
        (strings_in_list, "holds a str"),
        (text_of_branch, "after one branch and"),
        (keys_of_loop, "adds keys to a dict|is known only at run time"),
        (dtypes_of_branches, "torch.int64 and one of torch.float32"),
        (none_or_tensor, "None or a tensor"),
        (list_of_unknown_length, "list of unknown length"),
        (dtypes_of_rounds, "torch.float32 and one of torch.float64"),
        (sorted_list, "sorted"),
        (dict_of_value, "key of a dict"),
        (always_raising, "one axis only"),
        (user_class, "its own class Accumulator"),
        (to_python_list, "tolist"),
    ],
)
def test_refused_with_the_line(fn, says) -> None:
    warnings.simplefilter("ignore")
    with pytest.raises(OnnxExporterError, match=says) as raised:
        onnxexp.export(fn, (X,), capture="script", dynamic_axes={"x": [0]})
    unplaced = fn in (none_or_tensor, list_of_unknown_length, always_raising)
    assert unplaced or "test_errors.py" in str(raised.value)


class NotCompilable(nn.Module):
    def forward(self, x):
        return x + sum(value for value in (1, 2) if value in (1, 3))


def test_what_does_not_compile_says_why() -> None:
    with pytest.raises(OnnxExporterError, match=r"torch\.jit\.script"):
        onnxexp.export(NotCompilable(), (X,), capture="script")


def test_opset_that_has_no_sequences_is_named() -> None:
    def appended(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for i in range(x.size(0)):
            found.append(x[i])
        return torch.stack(found)

    with pytest.raises(onnxexp.OpsetError) as raised:
        onnxexp.export(torch.jit.script(appended), (X,), opset_version=9, dynamic_axes={"x": [0]})
    assert raised.value.first_opset in (11, 13)
