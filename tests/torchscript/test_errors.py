"""Programs without an ONNX form: errors with the user's line, reason and fix."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp._errors import OnnxExporterError
from tests.torch_versions import RELEASE

from . import bad_lists, bad_programs

X = torch.arange(6.0).reshape(2, 3)


REFUSED = [
    (bad_lists.nested_lists, "list"),
    (bad_lists.tuples_in_list, "contains a tuple"),
    (bad_lists.lists_in_list, "contains a list"),
    (bad_lists.dicts_in_list, "contains a dict"),
    (bad_lists.strings_in_list, "contains a str"),
    (bad_lists.numbers_of_unknown_length, "returns a list of numbers of unknown length"),
    (bad_lists.searched_list, "is searched"),
    (bad_lists.sum_of_list, "is reduced"),
    (bad_lists.compared_list, "are compared"),
    (bad_lists.list_as_size, "an operator takes a list of unknown length"),
    (bad_lists.list_for_operator, "an operator takes a list of unknown length"),
    (bad_lists.repeated_list, "a list is repeated"),
    (bad_lists.sorted_list, "the program sorts a list"),
    (bad_lists.sorted_values, "the program sorts a list"),
    (bad_lists.unpacked_rows, "asked to be dynamic, but the model fixes it to 2"),
    (bad_lists.parts_by_number, "tensor_split"),
    (bad_lists.step_by_value, "the step of a range"),
    (bad_lists.text_of_branch, "after one branch and"),
    (bad_programs.text_of_loop, "a loop changes a str"),
    (bad_programs.length_of_text, "a text that is known only at run time"),
    (bad_programs.number_of_text, "a text that is known only at run time"),
    (bad_programs.character_by_size, "contains a str"),
    (bad_lists.keys_of_loop, "adds keys to a dict|is known only at run time"),
    (bad_lists.dict_of_value, "key of a dict"),
    (bad_programs.key_that_may_be_missing, "key of a dict"),
    (bad_programs.key_asked_for, "key of a dict"),
    (bad_programs.keys_of_branches, "different keys after the two branches"),
    (bad_lists.user_class, "its own class Accumulator"),
    (bad_programs.enum_of_branch, "after one branch and"),
    (bad_programs.union_of_branches, "a int after the other"),
    (bad_programs.anything_returned, "a int after the other"),
    (bad_programs.none_or_number, "None or something else than a tensor"),
    (bad_lists.dtypes_of_branches, "torch.int64 and one of torch.float32"),
    (bad_lists.dtypes_of_rounds, "torch.float32 and one of torch.float64"),
    (bad_programs.kind_of_rounds, "torch.int64 and one of torch.float32"),
    (bad_programs.rank_of_rounds, "the rank of .* must be known"),
    (bad_programs.rank_of_branches, "the rank of .* must be known"),
    (bad_programs.rank_asked_for, "the rank of a tensor of unknown rank"),
    (bad_programs.complex_of_branch, "no complex numbers"),
    (bad_programs.complex_of_loop, "no complex numbers"),
    (bad_programs.aliased_by_branch, "whether the two share memory is not certain"),
    (bad_programs.view_of_branch, "whether the two share memory is not certain"),
    (bad_programs.view_of_round, "whether the two share memory is not certain"),
    (bad_programs.written_through_list, "whether the two share memory is not certain"),
    (bad_programs.written_through_list_in_loop, "whether the two share memory is not certain"),
    (bad_programs.appended_and_written, "which a list holds"),
    (bad_lists.to_python_list, "tolist"),
    (bad_programs.recursive, "called recursively"),
    (bad_programs.generating, "function definitions aren't supported"),
    (bad_programs.exception_as_flow, "try blocks aren't supported"),
    (bad_programs.with_lambda, "Lambda aren't supported"),
    (bad_programs.with_set, "Set aren't supported"),
    (bad_programs.through_numpy, "no attribute or method 'numpy'"),
    (bad_programs.attribute_asked_for, "hasattr's first argument"),
    (bad_lists.always_raising, "one axis only"),
    (bad_programs.raising_by_value, "positive"),
    (bad_programs.raising_on_both_ways, "small"),
    (bad_programs.unknown_operator_in_branch, "aten::to_sparse"),
    (bad_programs.unknown_operator_in_loop, "aten::to_sparse"),
    (bad_programs.quantized_inside, "quantize"),
]
"""Each with a part of its error."""
FIXES = re.compile(r"[tT]o fix this, |write a symbolic|opset_version=")


@pytest.mark.parametrize(("fn", "says"), REFUSED)
def test_refused_with_the_line_the_reason_and_the_fix(fn, says) -> None:
    warnings.simplefilter("ignore")
    with pytest.raises(OnnxExporterError, match=says) as raised:
        onnxexp.export(fn, (X,), capture="script", dynamic_axes={"x": [0]})
    assert f"{fn.__module__.rpartition('.')[2]}.py" in str(raised.value) and FIXES.search(str(raised.value)), str(raised.value)


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
        onnxexp.export(nn.ReLU(), (given,), capture=capture, without=["quantized"])


@pytest.mark.parametrize("capture", ["script", "trace", "auto"])
def test_weights_that_are_not_there_yet(capture) -> None:
    with pytest.raises(OnnxExporterError, match="weight is not initialized yet; to fix this, run the model once"):
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
    # TorchScript cannot read the class torch.autograd.Function of torch 2.14.
    refused = name == "Tripled" and RELEASE >= (2, 14)
    expected = (
        r"torch\.jit\.script: [\s\S]*capture=.trace."
        if refused
        else f"leaves .*{name} to Python.*to fix this, use capture=.trace."
    )
    with pytest.raises(OnnxExporterError, match=expected) as raised:
        onnxexp.export(model, (X,), capture="script")
    assert "test_errors.py" in str(raised.value)
    program = onnxexp.export(model, (X,), capture="trace", dynamic_axes={"x": [0]})
    torch.testing.assert_close(program(X[:1]), model(X[:1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_that_was_optimized_for_this_machine() -> None:
    model = torch.jit.optimize_for_inference(torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()))
    with pytest.raises(OnnxExporterError, match="to fix this, export the module before torch.jit.optimize_for_inference"):
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


def mask_and_true(x: Tensor) -> Tensor:
    return (x > 0) * True


def mask_and_tensor(x: Tensor) -> Tensor:
    return (x > 0) & torch.tensor(True)


def test_a_result_of_another_dtype_than_the_models() -> None:
    """TorchScript passes True as the number 1."""
    with pytest.raises(
        onnxexp.CaptureError, match=r"a tensor of torch\.int64, and the model one of torch\.bool; to fix this, "
    ) as raised:
        onnxexp.export(mask_and_true, (X,), capture="script")
    assert "(x > 0) * True" in str(raised.value)
    program = onnxexp.export(mask_and_tensor, (X,), capture="script")
    torch.testing.assert_close(program(X), mask_and_true(X))


def total_of_data(x: Tensor) -> Tensor:
    return x * float(x.data.sum())


def total_of_item(x: Tensor) -> Tensor:
    return x * x.sum().item()


@pytest.mark.parametrize("model", [total_of_data, total_of_item])
@pytest.mark.filterwarnings("ignore:Tracing fixes")
def test_a_number_of_contents_in_a_trace(model: Callable[[Tensor], Tensor]) -> None:
    message = r"the trace fixes what depends on the contents of a tensor; .*x\.sum\(\) for float\(x\.sum\(\)\)"
    with pytest.raises(onnxexp.CaptureError, match=message):
        onnxexp.export(model, (X,), capture="trace", dynamic_axes={"x": [0]})
