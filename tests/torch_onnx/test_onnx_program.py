"""onnx_program.py: what code for torch.onnx's class ONNXProgram calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp import OptionError
from onnxexp_torch_onnx.errors import OnnxExporterWarning

X = torch.randn(3, 4)


class Two(torch.nn.Module):
    """A model with a nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 5)
        self.shift = torch.nn.Parameter(torch.ones(5))

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.linear(x) + self.shift
        return {"hidden": hidden, "rest": (hidden.relu(), None)}


def exported(**options: Any) -> tuple[Two, onnx_exporter.ONNXProgram]:
    model = Two()
    return model, onnx_exporter.export(model, (X,), dynamic_shapes={"x": {0: "batch"}}, **options)


def test_a_call_returns_the_outputs_as_a_tuple() -> None:
    model, program = exported()
    expected = (model(X)["hidden"], model(X)["rest"][0])
    for results in (program(X), program(x=X), program.call_reference(X)):
        assert type(results) is tuple
        torch.testing.assert_close(results, expected)
    one = onnx_exporter.export(torch.relu, (X,))
    torch.testing.assert_close(one(X), (X.relu(),))


def test_values_by_name() -> None:
    model, program = exported()
    relu = next(node for node in program.model.graph if node.op_type == "Relu")
    hidden, result = str(relu.inputs[0].name), str(relu.outputs[0].name)
    found = program.compute_values([result, hidden, result, "shift"], (X,))
    expected = model(X)["hidden"]
    torch.testing.assert_close(found, (expected.relu(), expected, expected.relu(), model.shift.detach()))
    torch.testing.assert_close(program(X)[1], expected.relu())
    with pytest.raises(OptionError, match="the graph has no value nothing, nowhere"):
        program.compute_values(["nothing", hidden, "nowhere"], (X,))


@pytest.mark.parametrize("included", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_saving_weights_in_the_file_and_among_the_inputs(tmp_path: Path, included: bool, listed: bool) -> None:
    _, program = exported()
    program.save(tmp_path / "model.onnx", include_initializers=included, keep_initializers_as_inputs=listed)
    graph = onnx.load(tmp_path / "model.onnx").graph
    weights = {"linear.weight", "linear.bias", "shift"}
    assert bool(graph.initializer) == included
    assert ({value.name for value in graph.input} >= weights) == listed
    assert [value.name for value in program.model.graph.inputs] == ["x"] and weights <= {*program.model.graph.initializers}
    assert len(program(X)) == 2


def test_other_weights() -> None:
    _, program = exported()
    other = Two()
    with pytest.warns(OnnxExporterWarning, match=r"the graph lacks linear\.other, which stays as it is"):
        program.apply_weights({**other.state_dict(), "linear.other": X})
    torch.testing.assert_close(program(X)[0], other(X)["hidden"])
    with pytest.raises(OptionError, match=r"apply_weights: shift is FLOAT of shape \[5\] in the graph, and FLOAT of \[4\]"):
        program.apply_weights({"shift": torch.ones(4)})


def test_weights_that_the_export_has_computed_are_named() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.t() + self.weight.sum(0)

    program = onnx_exporter.export(Twice(), (X,))
    computed = [name for name in program.model.graph.initializers if name != "weight"]
    with pytest.warns(OnnxExporterWarning, match="computed from the old weights .*which stays as it is") as caught:
        program.apply_weights(Twice().state_dict())
    assert computed and any(computed[0] in str(each.message) for each in caught)


def test_the_session() -> None:
    model, program = exported()
    made: list[Any] = []

    def make(source: str | bytes) -> onnxruntime.InferenceSession:
        made.append(source)
        return onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])

    program.initialize_inference_session(make)
    torch.testing.assert_close(program(X)[0], model(X)["hidden"])
    program.release()
    program.optimize()
    torch.testing.assert_close(program(X)[0], model(X)["hidden"])
    assert len(made) == 1 and isinstance(made[0], bytes)


def test_names_of_axes() -> None:
    class Joined(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x])

    program = onnx_exporter.export(Joined(), (X,), dynamic_shapes={"x": {0: "n", 1: "width"}})
    program.rename_axes({"n": "rows", program.model.graph.inputs[0].shape[1]: "columns"})  # type: ignore[index,dict-item]
    assert str(program.model.graph.inputs[0].shape) == "[rows,columns]"
    (output,) = program.model.graph.outputs
    assert output.shape is not None
    assert "rows" in str(output.shape[0]) and str(output.shape[1]) == "columns"
    assert program(torch.randn(5, 2))[0].shape == (10, 2)


def test_the_captured_program() -> None:
    model, program = exported()
    captured = program.exported_program
    assert captured is program.exported_program
    torch.testing.assert_close(captured.module()(torch.ones(7, 4)), model(torch.ones(7, 4)))
    again = onnx_exporter.export(captured)
    assert again.exported_program is captured
    torch.testing.assert_close(again(X), program(X))
