"""Foreign passes and hooks that err: an error names them, or the file is right."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

from onnxexp import OnnxExporterError, ONNXProgram, PassError, PluginError, hookimpl
from onnxexp._plugins.plugin import HOOKS
from onnxexp.graph import Graph
from tests.core.tiny import export

X = torch.randn(2, 3)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight).relu().neg()


class Pack:
    """A plugin with one hook."""

    def __init__(self, hook: str, function: Callable[..., Any]) -> None:
        setattr(self, hook, hookimpl(function))


def run(hook: str, bad_pass: Callable[[Any], Any]) -> ONNXProgram:
    return export(Layer(), (X,), plugins=[Pack(hook, lambda options: bad_pass)])


def nodes(model: ir.Model) -> list[ir.Node]:
    return list(model.graph)


def weight(model: ir.Model) -> ir.Value:
    return next(iter(model.graph.initializers.values()))


def insert(model: ir.Model, node: ir.Node) -> None:
    model.graph.insert_before(nodes(model)[0], node)


def added_function(model: ir.Model) -> None:
    value = ir.Value(name="a")
    graph = ir.Graph([value], [ir.Value(name="never_made")], nodes=[], opset_imports={"": 20})
    model.functions[("mine", "F", "")] = ir.Function("mine", "F", graph=graph, attributes=[])
    model.opset_imports["mine"] = 1
    nodes(model)[1].domain, nodes(model)[1].op_type = "mine", "F"


def branch(model: ir.Model, outputs: list[ir.Value], inner: list[ir.Node]) -> None:
    """Insert an If before the last node, with a branch of these nodes."""
    last = nodes(model)[-1]
    condition = ir.Node("", "Constant", [], [ir.AttrTensor("value", ir.tensor(np.array(True)))])
    condition.outputs[0].name = "condition"
    body = ir.Graph([], outputs, nodes=inner, name="body")
    chosen = ir.Node("", "If", condition.outputs, [ir.AttrGraph("then_branch", body)])
    chosen.outputs[0].name = "chosen"
    model.graph.insert_before(last, [condition, chosen])


def unmade(name: str = "unmade") -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 4]))


def cycle(model: ir.Model) -> None:
    nodes(model)[0].replace_input_with(0, nodes(model)[-1].outputs[0])


def reverse(model: ir.Model) -> None:
    first = nodes(model)[0]
    model.graph.remove(first)
    model.graph.append(first)


def quit_process(_: Any) -> None:
    sys.exit(0)


class _NoException(BaseException):
    """An exception that `except Exception` does not catch."""


def raise_base(_: Any) -> None:
    raise _NoException("strange")


def set_type(value: ir.Value, dtype: ir.DataType) -> None:
    value.type = ir.TensorType(dtype)


def setting(target: str, name: str, value: Any) -> Callable[[ir.Model], None]:
    """Return a pass that sets an attribute of the object that `target` names."""

    def set_attribute(m: ir.Model) -> None:
        objects = {"model": m, "graph": m.graph, "node": nodes(m)[1], "out": nodes(m)[0].outputs[0], "weight": weight(m),
                   "input": m.graph.inputs[0], "output": m.graph.outputs[0]}  # fmt: skip
        setattr(objects[target], name, value)

    return set_attribute


POST: dict[str, Callable[[ir.Model], Any]] = {
    "no initializers": lambda m: m.graph.initializers.clear(),
    "a cycle": cycle,
    "nodes out of order": reverse,
    "an unknown operator": setting("node", "op_type", "Rely"),
    "an operator without a name": setting("node", "op_type", ""),
    "an unknown domain": setting("node", "domain", "nobody.knows"),
    "an undeclared domain of onnx": setting("node", "domain", "ai.onnx.ml"),
    "an unknown attribute": lambda m: nodes(m)[1].attributes.add(ir.AttrInt64("slope", 1)),
    "an attribute without a name": lambda m: nodes(m)[1].attributes.add(ir.AttrInt64("", 1)),
    "an attribute of a wrong type": lambda m: (
        setattr(nodes(m)[1], "op_type", "LeakyRelu"), nodes(m)[1].attributes.add(ir.AttrString("alpha", "x"))
    ),
    "a required attribute is missing": setting("node", "op_type", "Cast"),
    "too many inputs": lambda m: nodes(m)[1].resize_inputs(4) or [
        nodes(m)[1].replace_input_with(index, nodes(m)[0].outputs[0]) for index in range(4)
    ],
    "no inputs": lambda m: nodes(m)[1].resize_inputs(0),
    "an input that nothing makes": lambda m: nodes(m)[1].replace_input_with(0, unmade()),
    "a required input is left out": lambda m: nodes(m)[1].replace_input_with(0, None),
    "an output without a name": setting("out", "name", ""),
    "an output without any name": setting("out", "name", None),
    "an output renamed": setting("output", "name", "renamed"),
    "an input renamed": setting("input", "name", "renamed"),
    "an input without a name": setting("input", "name", ""),
    "an input named like a value": setting("out", "name", "x"),
    "two values of one name": lambda m: setattr(nodes(m)[1].outputs[0], "name", nodes(m)[0].outputs[0].name),
    "another size of an input": setting("input", "shape", ir.Shape([7, 3])),
    "another rank of an input": setting("input", "shape", ir.Shape([3])),
    "no type of an input": setting("input", "type", None),
    "another dtype of an input": lambda m: set_type(m.graph.inputs[0], ir.DataType.DOUBLE),
    "another dtype of an output": lambda m: set_type(m.graph.outputs[0], ir.DataType.INT64),
    "another dtype of a weight": lambda m: set_type(weight(m), ir.DataType.DOUBLE),
    "another size of an output": setting("output", "shape", ir.Shape([9, 9])),
    "another rank of an output": setting("output", "shape", ir.Shape([9])),
    "another size of a weight": setting("weight", "shape", ir.Shape([5, 4])),
    "a weight of another dtype": setting("weight", "const_value", ir.tensor(np.ones((3, 4), np.float64))),
    "a weight of another size": setting("weight", "const_value", ir.tensor(np.ones((5, 4), np.float32))),
    "a weight without a value": setting("weight", "const_value", None),
    "a weight that is no tensor": setting("weight", "const_value", "text"),
    "no outputs": lambda m: m.graph.outputs.clear(),
    "no inputs of the graph": lambda m: m.graph.inputs.clear(),
    "another output": lambda m: m.graph.outputs.append(nodes(m)[0].outputs[0]),
    "another input": lambda m: m.graph.inputs.append(unmade()),
    "an output twice": lambda m: m.graph.outputs.append(m.graph.outputs[0]),
    "no nodes": lambda m: m.graph.remove(nodes(m)),
    "the last node removed": lambda m: m.graph.remove(nodes(m)[-1]),
    "no opset": lambda m: m.opset_imports.clear(),
    "another opset": lambda m: m.opset_imports.update({"": 21}),
    "an opset that does not exist": lambda m: m.opset_imports.update({"": 4000}),
    "an opset that is no number": lambda m: m.opset_imports.update({"": "20"}),
    "a domain of a negative version": lambda m: m.opset_imports.update({"mine": "x"}),
    "an IR version that does not exist": setting("model", "ir_version", 99),
    "an IR version of None": setting("model", "ir_version", None),
    "no graph": setting("model", "graph", None),
    "a graph of text": setting("model", "graph", "graph"),
    "metadata that is a number": lambda m: m.metadata_props.update({"key": 3}),
    "metadata with a key that is a number": lambda m: m.metadata_props.update({3: "value"}),
    "metadata of a node that is a number": lambda m: nodes(m)[0].metadata_props.update({"key": 3}),
    "metadata of the graph that is a list": lambda m: m.graph.metadata_props.update({"key": ["a"]}),
    "metadata with half a surrogate": lambda m: m.metadata_props.update({"key": "\ud800"}),
    "a doc string that is a number": setting("graph", "doc_string", 3),
    "a name of a node that is a number": setting("node", "name", 3),
    "a producer that is a number": setting("model", "producer_name", 3),
    "a function that makes nothing": added_function,
    "a branch that returns nothing": lambda m: branch(m, [], []),
    "a branch that returns what nothing makes": lambda m: branch(m, [unmade()], []),
    "a branch alone": lambda m: branch(m, [(made := ir.Node("", "Neg", [nodes(m)[0].outputs[0]])).outputs[0]], [made]),
    "a branch that reads what nothing makes": lambda m: branch(
        m, [(made := ir.Node("", "Neg", [unmade()])).outputs[0]], [made]
    ),
    "an exit": quit_process,
    "an exception that is no Exception": raise_base,
    "another model": lambda m: m.clone(),
    "a text": lambda m: "done",
    "endless recursion": lambda m: POST["endless recursion"](m),
}  # fmt: skip


@pytest.mark.parametrize("name", POST)
def test_a_bad_pass_is_named_or_the_file_is_right(name: str) -> None:
    def bad(model: ir.Model) -> Any:
        return POST[name](model)

    try:
        program = run("post_pass", bad)
    except PassError as error:
        message = str(error)
    else:
        _check_file(program)
        return
    assert "the pass inline Pack 1/bad of the plugin 'inline Pack 1'" in message


def _check_file(program: ONNXProgram) -> None:
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": X.numpy()})[0].shape == (2, 4)


def rename(graph: Graph) -> None:
    graph.nodes[1].args[0] = type(graph.inputs[0])("nobody", graph.inputs[0].type)


PRE: dict[str, Callable[[Graph], Any]] = {
    "a value that nothing makes": rename,
    "a node removed": lambda graph: graph.nodes.pop(0),
    "nodes reversed": lambda graph: graph.nodes.reverse(),
    "nodes twice": lambda graph: graph.nodes.extend(graph.nodes[:]),
    "no parameters": lambda graph: graph.params.clear(),
    "a node that is text": lambda graph: graph.nodes.insert(0, "node"),  # type: ignore[arg-type]
    "an output that is text": lambda graph: graph.nodes[0].outputs.append("value"),  # type: ignore[arg-type]
    "nodes that are None": lambda graph: setattr(graph, "nodes", None),
    "an operator that is a number": lambda graph: setattr(graph.nodes[0], "op", 3),
    "outputs that are None": lambda graph: setattr(graph, "outputs", None),
    "inputs that are None": lambda graph: setattr(graph, "inputs", None),
    "a type that is text": lambda graph: setattr(graph.nodes[0].outputs[0], "type", "float"),
    "a parameter that is a list": lambda graph: graph.params.update(dict.fromkeys(graph.params, 1.0)),  # type: ignore[misc]
    "an exit": quit_process,
}


@pytest.mark.parametrize("name", PRE)
def test_a_bad_pass_over_the_captured_graph_is_named(name: str) -> None:
    def bad(graph: Graph) -> Any:
        PRE[name](graph)

    with pytest.raises(PassError, match="the pass inline Pack 1/bad of the plugin 'inline Pack 1'"):
        run("pre_pass", bad)


@pytest.mark.parametrize("error", [SystemExit(0), _NoException("strange"), ValueError("wrong")])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_is_named(hook: str, error: BaseException, tmp_path: Any) -> None:
    with pytest.raises(OnnxExporterError, match=f"the hook {hook} of the plugin 'inline Pack 1' at .*{type(error).__name__}"):
        _use(_raising(hook, error), tmp_path)


@pytest.mark.parametrize("hook", HOOKS)
def test_ctrl_c_ends_a_hook(hook: str, tmp_path: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        _use(_raising(hook, KeyboardInterrupt()), tmp_path)


def _raising(hook: str, error: BaseException) -> Pack:
    def implementation() -> Any:
        raise error

    return Pack(hook, implementation)


def _use(pack: Pack, folder: Any) -> None:
    program = export(Layer(), (X,), folder / "model.onnx", plugins=[pack])
    program(X)
    program.report(folder / "report.txt")


def test_a_session_that_is_no_model_is_named() -> None:
    program = export(Layer(), (X,), plugins=[Pack("prepare_session", lambda model: "model")])
    with pytest.raises(PluginError, match=r"the hook prepare_session .* returned 'model', which is no onnx_ir\.Model"):
        program(X)


def test_the_state_of_the_process_is_restored_after_a_pass(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    before = _state()

    def careless(_: Any) -> None:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
        torch.set_default_device("meta")
        torch.device("meta").__enter__()
        warnings.simplefilter("error")
        os.chdir("elsewhere")
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        for hook in ("pre_pass", "post_pass"):
            run(hook, careless)
            assert _state() == before
    finally:
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_autocast_enabled("cpu", False)
        signal.signal(signal.SIGINT, before[-1])


def _state() -> tuple[Any, ...]:
    return (torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
            torch.empty(()).device, list(warnings.filters), os.getcwd(), signal.getsignal(signal.SIGINT))  # fmt: skip
