# ruff: noqa: E731, UP006, UP007, UP035, UP045 - TorchScript reads this file, and not all of today's Python
"""What TorchScript can say and ONNX cannot: an error with the user's line, the reason and the cure; never a crash or a guess."""

from __future__ import annotations

import enum
import re
import warnings
from typing import Any, Dict, List, Optional, Union

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


def none_or_tensor(x: Tensor) -> Optional[Tensor]:
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


def reversed_list(x: Tensor) -> Tensor:
    found = rows(x)
    found.reverse()
    return torch.cat(found)


def piece_of_list(x: Tensor) -> Tensor:
    return torch.cat(rows(x)[1:])


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


def extended_list(x: Tensor) -> Tensor:
    found = rows(x)
    found.extend(rows(x + 1))
    return torch.cat(found)


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


# Text, dicts, classes


def text_of_loop(x: Tensor) -> str:
    text = ""
    for _ in range(x.size(0)):
        text = text + "a"
    return text


def length_of_text(x: Tensor) -> Tensor:
    return x * len("{}".format(x.size(0)))  # noqa: UP032


def number_of_text(x: Tensor) -> Tensor:
    return x * int(str(x.size(0)))


def character_by_size(x: Tensor) -> Tensor:
    return x if "abc"[x.size(0) % 3] == "b" else -x


def key_that_may_be_missing(x: Tensor) -> Tensor:
    table: Dict[int, Tensor] = {0: x, 1: -x}
    found = table.get(int(x.min()))
    assert found is not None
    return found


def key_asked_for(x: Tensor) -> Tensor:
    table: Dict[int, Tensor] = {0: x, 1: -x}
    return x if int(x.min()) in table else -x


def keys_of_branches(x: Tensor) -> Tensor:
    found: Dict[str, Tensor] = {}
    if x.sum() > 0:
        found["a"] = x
    else:
        found["b"] = x
    return x if "a" in found else -x


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def enum_of_branch(x: Tensor) -> Tensor:
    color = Color.RED
    if x.sum() > 0:
        color = Color.GREEN
    return x if color == Color.RED else -x


def union_of_branches(x: Tensor) -> Tensor:
    y: Union[int, Tensor] = 1
    if x.sum() > 0:
        y = x
    if isinstance(y, Tensor):
        return y
    return x


def anything_returned(x: Tensor) -> Any:
    if x.sum() > 0:
        return x
    return 3


def none_or_number(x: Tensor) -> Optional[int]:
    if x.sum() > 0:
        return 3
    return None


# Types that change, memory that is shared


def rank_of_rounds(x: Tensor) -> Tensor:
    y = x
    for _ in range(x.size(0)):
        y = y.unsqueeze(0)
    return y.reshape(-1)


def kind_of_rounds(x: Tensor) -> Tensor:
    y = torch.zeros(3, dtype=torch.int64)
    for i in range(x.size(0)):
        y = y + x[i]
    return y


def rank_of_branches(x: Tensor) -> Tensor:
    y = x.sum(0) if x.sum() > 0 else x
    return y.sum(-1)


def rank_asked_for(x: Tensor) -> Tensor:
    y = x.sum(0) if x.sum() > 0 else x
    return y * 2 if y.dim() == 1 else y


def complex_of_branch(x: Tensor) -> Tensor:
    z = torch.complex(x, x)
    if x.sum() > 0:
        z = z * 2
    return torch.view_as_real(z)


def complex_of_loop(x: Tensor) -> Tensor:
    z = torch.complex(x, x)
    for _ in range(x.size(0)):
        z = z * z
    return z.real


def aliased_by_branch(x: Tensor) -> Tensor:
    y = x.clone()
    z = y if x.sum() > 0 else y + 1
    z.add_(5)
    return y + z


def view_of_branch(x: Tensor) -> Tensor:
    y = x.clone()
    z = y[0] if x.sum() > 0 else y[1]
    z.add_(5)
    return y


def view_of_round(x: Tensor) -> Tensor:
    y = x.clone()
    z = y[0]
    for i in range(x.size(0)):
        z.add_(1)
        z = y[i]
    return y


def written_through_list(x: Tensor) -> Tensor:
    found = rows(x)
    found[0].add_(10)
    return torch.cat(found)


def written_through_list_in_loop(x: Tensor) -> Tensor:
    found = rows(x)
    for i in range(len(found)):
        found[i].add_(10)
    return torch.cat(found)


def appended_and_written(x: Tensor) -> Tensor:
    found: List[Tensor] = []
    y = torch.zeros(3)
    for i in range(x.size(0)):
        y.add_(x[i])
        found.append(y)
    return torch.stack(found)


# What does not compile, does not run, or has no operator


def recursive(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        return recursive(x[1:])
    return x


def generating(x):
    def each():
        for i in range(x.size(0)):
            yield x[i]

    return sum(each())


def exception_as_flow(x):
    try:
        return x[5]
    except IndexError:
        return x


def with_lambda(x):
    add = lambda y: y + 1
    return add(x)


def with_set(x):
    return x * len({1, 2})


def through_numpy(x):
    return torch.from_numpy(x.numpy() + 1)


def attribute_asked_for(x: Tensor) -> Tensor:
    return x + 1 if hasattr(x, "scale") else x


def raising_by_value(x: Tensor) -> Tensor:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


def raising_on_both_ways(x: Tensor) -> Tensor:
    if x.sum() > 100:
        raise ValueError("large")
    else:  # noqa: RET506 - both branches are what is tested
        raise ValueError("small")


def unknown_operator_in_branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.to_sparse().to_dense()
    return x


def unknown_operator_in_loop(x: Tensor) -> Tensor:
    for _ in range(x.size(0)):
        x = x.to_sparse().to_dense()
    return x


def quantized_inside(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()


REFUSED = [
    (nested_lists, "list"),
    (tuples_in_list, "holds a tuple"),
    (lists_in_list, "holds a list"),
    (dicts_in_list, "holds a dict"),
    (strings_in_list, "holds a str"),
    (list_of_unknown_length, "list of unknown length"),
    (reversed_list, "is reversed"),
    (piece_of_list, "a piece of a list"),
    (searched_list, "is searched"),
    (sum_of_list, "is reduced"),
    (compared_list, "are compared"),
    (list_as_size, "given to an operator"),
    (list_for_operator, "given to an operator"),
    (repeated_list, "a list is repeated"),
    (extended_list, "extended by one of unknown length"),
    (sorted_list, "sorted"),
    (sorted_values, "sorted"),
    (unpacked_rows, "asked to be dynamic, but the model fixes it to 2"),
    (parts_by_number, "tensor_split"),
    (step_by_value, "the step of a range"),
    (text_of_branch, "after one branch and"),
    (text_of_loop, "a loop changes a str"),
    (length_of_text, "a text that is known only at run time"),
    (number_of_text, "a text that is known only at run time"),
    (character_by_size, "holds a str"),
    (keys_of_loop, "adds keys to a dict|is known only at run time"),
    (dict_of_value, "key of a dict"),
    (key_that_may_be_missing, "key of a dict"),
    (key_asked_for, "key of a dict"),
    (keys_of_branches, "other keys in one branch"),
    (user_class, "its own class Accumulator"),
    (enum_of_branch, "after one branch and"),
    (union_of_branches, "a int after the other"),
    (anything_returned, "a int after the other"),
    (none_or_tensor, "None or a tensor"),
    (none_or_number, "None or a tensor"),
    (dtypes_of_branches, "torch.int64 and one of torch.float32"),
    (dtypes_of_rounds, "torch.float32 and one of torch.float64"),
    (kind_of_rounds, "torch.int64 and one of torch.float32"),
    (rank_of_rounds, "the rank of .* must be known"),
    (rank_of_branches, "the rank of .* must be known"),
    (rank_asked_for, "the rank of a tensor that is asked for"),
    (complex_of_branch, "no complex numbers"),
    (complex_of_loop, "no complex numbers"),
    (aliased_by_branch, "whether the two share memory is not certain"),
    (view_of_branch, "whether the two share memory is not certain"),
    (view_of_round, "whether the two share memory is not certain"),
    (written_through_list, "whether the two share memory is not certain"),
    (written_through_list_in_loop, "whether the two share memory is not certain"),
    (appended_and_written, "which a list holds"),
    (to_python_list, "tolist"),
    (recursive, "called recursively"),
    (generating, "function definitions aren't supported"),
    (exception_as_flow, "try blocks aren't supported"),
    (with_lambda, "Lambda aren't supported"),
    (with_set, "Set aren't supported"),
    (through_numpy, "no attribute or method 'numpy'"),
    (attribute_asked_for, "hasattr's first argument"),
    (always_raising, "one axis only"),
    (raising_by_value, "positive"),
    (raising_on_both_ways, "small"),
    (unknown_operator_in_branch, "aten::to_sparse"),
    (unknown_operator_in_loop, "aten::to_sparse"),
    (quantized_inside, "quantize"),
]
"""Each with a part of its error."""
CURES = re.compile(r"cure: |write a symbolic|opset_version=")


@pytest.mark.parametrize(("fn", "says"), REFUSED)
def test_refused_with_the_line_the_reason_and_the_cure(fn, says) -> None:
    warnings.simplefilter("ignore")
    with pytest.raises(OnnxExporterError, match=says) as raised:
        onnxexp.export(fn, (X,), capture="script", dynamic_axes={"x": [0]})
    assert "test_errors.py" in str(raised.value) and CURES.search(str(raised.value)), str(raised.value)


def test_enough_kinds() -> None:
    assert len({fn for fn, _ in REFUSED}) >= 40


@pytest.mark.parametrize("capture", ["script", "trace", "auto"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (X.to_sparse(), "torch.sparse_coo tensor"),
        (torch.nested.nested_tensor([X[0], X[1]]), "nested tensor"),
        (torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), "quantized tensor"),
    ],
)
def test_tensors_that_onnx_does_not_have(capture, given, says) -> None:
    with pytest.raises(OnnxExporterError, match=says):
        onnxexp.export(nn.ReLU(), (given,), capture=capture)


@pytest.mark.parametrize("capture", ["script", "trace", "auto"])
def test_weights_that_are_not_there_yet(capture) -> None:
    with pytest.raises(OnnxExporterError, match="weight is not initialized yet; cure: run the model once"):
        onnxexp.export(nn.LazyLinear(4), (X,), capture=capture)


@torch.jit.ignore
def left_to_python(x):
    return x * 2


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3


class CallsPython(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return left_to_python(x) + 1


class CallsFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Tripled.apply(x) + 1


@pytest.mark.parametrize(("model", "name"), [(CallsPython(), "left_to_python"), (CallsFunction(), "Tripled")])
def test_what_is_left_to_python_is_traced_not_scripted(model, name) -> None:
    with pytest.raises(OnnxExporterError, match=f"leaves .*{name} to Python.*cure: capture=.trace.") as raised:
        onnxexp.export(model, (X,), capture="script")
    assert "test_errors.py" in str(raised.value)
    program = onnxexp.export(model, (X,), capture="trace", dynamic_axes={"x": [0]})
    torch.testing.assert_close(program(X[:1]), model(X[:1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_that_was_optimized_for_this_machine() -> None:
    model = torch.jit.optimize_for_inference(torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()))
    with pytest.raises(OnnxExporterError, match="cure: export the module before torch.jit.optimize_for_inference"):
        onnxexp.export(model, (torch.randn(2, 3, 8, 8),))


def raising_sometimes(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        if x[i].sum() < 0:
            raise ValueError("a negative row")
        x = x + 1
    return x


def test_what_the_program_raises_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="ONNX has no exceptions") as caught:
        onnxexp.export(raising_sometimes, (X,), capture="script", dynamic_axes={"x": [0]})
    (message,) = [str(warning.message) for warning in caught if "no exceptions" in str(warning.message)]
    assert "'a negative row' at File" in message and "test_errors.py" in message


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
            found.append(x[: i + 1])
        return torch.cat(found)

    with pytest.raises(onnxexp.OpsetError) as raised:
        onnxexp.export(torch.jit.script(appended), (X,), opset_version=9, dynamic_axes={"x": [0]})
    assert raised.value.first_opset in (11, 13)
