"""Earlier compilations, by the user or by an export, do not affect an export."""

from __future__ import annotations

import pytest
import torch

import onnxexp


class WritesThroughView(torch.nn.Module):
    """A write that torch.jit.script alone compiles out of place: `x` keeps its values."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        view = x[0]
        view ^= y
        return x


class CannotCompile(torch.nn.Module):
    def run(self, x, *rest):
        return x

    def forward(self, x):
        return self.run(x)


def test_user_compiled_the_class_before() -> None:
    model, example = WritesThroughView(), (torch.tensor([[1, 2], [3, 4]]), torch.tensor([7, 7]))
    users = torch.jit.script(model)
    assert not torch.equal(users(*example), model(*example)), "torch compiles this as Python runs it: the test shows nothing"
    program = onnxexp.export(model, example, capture="script")
    assert torch.equal(program(*example), model(*example))
    assert torch.jit.script(model)._c._type() == users._c._type(), "the user's own compilation was lost"


def test_second_failure_has_the_message_of_the_first() -> None:
    messages = []
    for _ in range(2):
        with pytest.raises(onnxexp.CaptureError, match="variable number of arguments") as caught:
            onnxexp.export(CannotCompile(), (torch.ones(2),), capture="script")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


class Calls(torch.nn.Module):
    """A function that calls another one, which calls `relu`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return outer(x)


def inner(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(x)


def outer(x: torch.Tensor) -> torch.Tensor:
    return inner(x) + 1


class HasPart(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(Calls())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x * 2)


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_a_part_that_ran_without_optimizations(capture: str) -> None:
    """torch keeps its graph of that run, with calls in it, for all later inlining."""
    model, x = HasPart(), torch.randn(3)
    with torch.jit.optimized_execution(False):
        model.part(x)
    program = onnxexp.export(model, (x,), capture=capture)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Mul", "Relu", "Add"]
    torch.testing.assert_close(program(x), model(x))


class CallsOther(torch.nn.Module):
    """A function of torch that nothing else here calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardswish(x)


def test_an_export_leaves_no_calls_in_a_scripted_module() -> None:
    """An export runs the module without optimizations; the user's later traces inline it as always."""
    model = HasPart()
    model.part = torch.jit.script(CallsOther())
    onnxexp.export(model.part, (torch.randn(3),))
    graph = torch.jit.trace(model, (torch.randn(3),)).inlined_graph
    assert "prim::CallFunction" not in str(graph)
