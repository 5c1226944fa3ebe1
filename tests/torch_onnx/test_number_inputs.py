"""Python numbers as arguments: inputs of the file, or constants with a warning."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter

X = torch.randn(2, 6)
CAPTURES = ("auto", "trace", "script")


class Both(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int, s: float, flag: bool = True) -> torch.Tensor:
        return x * k + s if flag else x


class Reshaped(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int, s: float) -> torch.Tensor:
        return x.reshape(k, -1) * s


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, pair: Any, *rest: Any, **named: Any) -> torch.Tensor:
        return x * pair[0]["s"] + pair[1] + rest[0] * named["k"]


class AxisAndScale(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int, s: float) -> torch.Tensor:
        return x.sum(dim=k) * s


class Repeated(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        for _ in range(k):
            x = x + x
        return x


def inputs(program: Any) -> list[str]:
    return [str(value.name) for value in program.model.graph.inputs]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(("k", "s", "others"), [(3, 2.5, [(1, 0.5), (7, -1.0)]), (1, 0.0, [(2, 1.5), (0, 1.0)])])
def test_numbers_are_inputs(capture: str, k: int, s: float, others: list[Any]) -> None:
    names = ["input", "factor", "shift"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = onnx_exporter.export(
            Both(), (X, k, s), capture=capture, input_names=names, dynamic_axes={"input": {0: "batch"}}
        )
    assert inputs(program) == names
    kinds = [(value.dtype.name, list(value.shape)) for value in program.model.graph.inputs[1:]]
    assert kinds == [("INT64", []), ("DOUBLE", [])]
    program.verify()
    for rows, (k, s) in zip((5, 1), others, strict=True):
        program.verify((torch.randn(rows, 6), k, s))


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_number_is_a_size(capture: str) -> None:
    program = onnx_exporter.export(Reshaped(), (X, 2, 0.5), capture=capture)
    for k in (2, 1, 3, 4, 12):
        program.verify((X, k, 1.5))


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_nested_numbers(capture: str) -> None:
    args = (X, ({"s": 1.5}, 2), torch.ones(6), {"k": 3})
    names = ["x", "scale", "shift", "bias", "k"]
    program = onnx_exporter.export(Nested(), args, capture=capture, input_names=names)
    assert inputs(program) == names
    program.verify((X, ({"s": -2.0}, 5), torch.randn(6)), {"k": 0})


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_number_that_the_model_fixes_is_a_constant_with_a_warning(capture: str) -> None:
    with pytest.warns(UserWarning, match=r"the number 1 \(k\) is a constant of the file, not an input"):
        program = onnx_exporter.export(AxisAndScale(), (X, 1, 0.5), capture=capture, input_names=["x", "k", "s"])
    assert inputs(program) == ["x", "s"]
    program.verify((X, 1, 3.0))


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_python_decides_by_a_number(capture: str) -> None:
    with pytest.warns(UserWarning, match=r"the number 2 among the arguments is a constant of the file"):
        program = onnx_exporter.export(Repeated(), (X, 2), capture=capture)
    assert inputs(program) == ["x"]
    program.verify()


def test_a_script_loops_as_often_as_a_number() -> None:
    program = onnx_exporter.export(Repeated(), (X, 2), capture="script")
    for k in (2, 0, 1, 5):
        program.verify((X, k))


def test_dynamic_shapes_decide_where_they_are_given() -> None:
    shapes = {"x": {0: "batch"}, "k": torch.export.Dim.DYNAMIC}
    program = onnx_exporter.export(Both(), (X, 3, 2.5), dynamic_shapes=shapes)
    assert inputs(program) == ["x", "k"]


def test_bools_strings_and_defaults_are_constants() -> None:
    assert inputs(onnx_exporter.export(Both(), (X, 3, 2.5, True))) == ["x", "k", "s"]


def test_names_behind_the_numbers_are_the_parameters() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor, s: float) -> torch.Tensor:
            return super().forward(x) * s

    program = onnx_exporter.export(Scaled(6, 2), (X, 2.0), input_names=["x", "s", "w", "b"])
    assert inputs(program) == ["x", "s"] and set(program.model.graph.initializers) == {"w", "b"}


def test_a_bool_of_a_script_is_an_input() -> None:
    program = onnx_exporter.export(torch.jit.script(Both()), (X, 2, 0.5, True), input_names=["x", "k", "s", "flag"])
    assert [value.name for value in program.model.graph.inputs] == ["x", "k", "s", "flag"]
    for flag in (True, False):
        torch.testing.assert_close(program(X, 3, 1.5, flag)[0], Both()(X, 3, 1.5, flag))
