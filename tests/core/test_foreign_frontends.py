"""Frontends and capture contexts of others: what they may leave to the core, and errors that name them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._capture.captured_program import CapturedProgram
from onnxexp.graph import Graph, Node, TensorType, Value

TENSOR = TensorType(torch.float32, (2,))


def export(plugins: list[Any], function: Any = torch.relu) -> onnxexp.ONNXProgram:
    return onnxexp.export(function, (torch.ones(2),), plugins=plugins)


def captured(**changes: Any) -> Any:
    """Build a frontend that takes every model, with changes in the captured program.

    Its graph calls `op` and returns the result. `writes` are the nodes before it.
    """

    class Frontend:
        @onnxexp.hookimpl
        def capture(self, args: Any, kwargs: Any, spec: Any) -> CapturedProgram:
            given = Value(spec.input_names[0], TENSOR)
            result = Value("y", TENSOR)
            before = changes.pop("writes", lambda given: [])(given)
            last = Node(changes.pop("op", "aten::relu"), [given], [result])
            graph = Graph(inputs=[given], outputs=[result], nodes=[*before, last])
            specs = pytree.tree_structure((args, kwargs)), pytree.tree_structure(result)
            program = CapturedProgram(graph, *specs)
            for name, value in changes.items():
                owner, _, attribute = name.rpartition("__")
                object.__setattr__(getattr(program, owner) if owner else program, attribute, value)
            return program

    return Frontend()


@pytest.fixture
def composite() -> Iterator[None]:
    """Define an operator that no plugin lowers, and that torch composes of others."""
    with torch.library._scoped_library("onnxexp_tests", "DEF") as library:
        library.define("cubed(Tensor x) -> Tensor")
        library.impl("cubed", lambda x: x * x * x, "CompositeImplicitAutograd")
        yield


@pytest.mark.usefixtures("composite")
def test_torch_decomposes_for_a_frontend_without_decompositions() -> None:
    program = export([captured(op="onnxexp_tests::cubed"), ...])
    assert [node.op_type for node in program.model.graph] == ["Mul", "Mul"]
    torch.testing.assert_close(program(torch.tensor([2.0, -3.0])), torch.tensor([8.0, -27.0]))


def test_the_core_functionalizes_the_graph_of_a_frontend() -> None:
    def add_in_place(given: Value) -> list[Node]:
        return [Node("aten::add_.Tensor", [given, given], [Value("twice", TENSOR)])]

    with pytest.warns(UserWarning, match="the forward writes into"):
        program = export([captured(writes=add_in_place), ...])
    torch.testing.assert_close(program(torch.tensor([2.0, -3.0])), torch.tensor([4.0, 0.0]))


FRONTENDS: dict[str, tuple[dict[str, Any], str]] = {
    "a value that nothing makes": (
        {"graph__outputs": [Value("z", TENSOR)]},
        "returns %z, which nothing",
    ),
    "no input": ({"graph__inputs": []}, "which nothing before it makes"),
    "an output too many": ({"graph__outputs": [1.0, 2.0]}, "it has 2 outputs instead of 1"),
    "no graph": ({"graph": 5}, "it cannot be read"),
    "no specification": ({"out_spec": 5}, "its out_spec is 5"),
}


@pytest.mark.parametrize("kind", FRONTENDS)
def test_a_broken_program_names_its_frontend(kind: str) -> None:
    changes, reason = FRONTENDS[kind]
    with pytest.raises(
        onnxexp.PluginError, match=f"the hook capture of the plugin 'inline Frontend' .* broken program: .*{reason}"
    ):
        export(plugins=[captured(**changes), ...])


@pytest.mark.parametrize(
    ("decompose", "reason"),
    [
        (lambda node: 1 // 0, "failed: ZeroDivisionError"),
        (lambda node: 5, "is broken: it cannot be read"),
        (lambda node: Graph(), "is broken: it has 0 inputs instead of 1"),
    ],
)
def test_a_broken_decomposition_names_its_frontend(decompose: Any, reason: str) -> None:
    message = f"the decomposition of mine::new by the hook capture of the plugin 'inline Frontend' .* {reason}"
    with pytest.raises(onnxexp.LoweringError, match=message):
        export(plugins=[captured(op="mine::new", decompose=decompose), ...])


@pytest.mark.parametrize("moment", ["enter", "exit"])
def test_a_broken_capture_context_is_named(moment: str) -> None:
    class Surrounding:
        @onnxexp.hookimpl
        @contextlib.contextmanager
        def capture_context(self) -> Iterator[None]:
            assert moment != "enter", moment
            yield
            assert moment != "exit", moment

    with pytest.raises(onnxexp.PluginError, match=f"the hook capture_context of .* failed: AssertionError: {moment}"):
        export(plugins=[Surrounding(), ...])


def test_a_capture_context_hides_no_error() -> None:
    class Suppressing:
        @onnxexp.hookimpl
        def capture_context(self) -> Any:
            torch.set_grad_enabled(False)
            return contextlib.suppress(BaseException)

    def refused(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the user's")

    with pytest.raises(onnxexp.CaptureError, match="the user's"):
        export([Suppressing(), ...], refused)
    assert torch.is_grad_enabled()
