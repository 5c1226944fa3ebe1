"""The cases of the aten plugin's tests, exported through both frontends, as texts that can be compared."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import torch
from onnx import helper

import onnxexp
import tests.aten
from onnxexp.testing import Case

OPSET = 20


def aten_cases() -> Iterator[tuple[str, Case]]:
    """Every case that runs at `OPSET` and passes, under a name of its own."""
    for info in pkgutil.iter_modules(tests.aten.__path__, "tests.aten."):
        if not info.name.rpartition(".")[2].startswith("test_"):
            continue
        module = importlib.import_module(info.name)
        seen: dict[int, Case] = {}
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", []) if callable(test) else []:
                parameters = mark.args[1] if mark.name == "parametrize" and mark.args[0] == "check" else []
                seen.update({id(p.values[0].case): p.values[0].case for p in parameters if hasattr(p.values[0], "case")})
        for number, case in enumerate(seen.values()):
            if OPSET in case.opsets and not case.xfail:
                yield f"{info.name.rpartition('_')[2]}-{number}-{case.name}", case


def text_of(case: Case, capture: str) -> str:
    """The ONNX graph with its values numbered in order of appearance; weights by their contents."""
    model = case.fn if isinstance(case.fn, torch.nn.Module) else Function(case.fn)
    inputs = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in case.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = onnxexp.export(model, tuple(inputs), opset_version=OPSET, plugins=case.plugins, capture=capture)
    return "\n".join(_lines(program.model_proto.graph, {}, ""))


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


def _lines(graph: onnx.GraphProto, names: dict[str, str], indent: str) -> Iterator[str]:
    for value in graph.input:
        names[value.name] = f"%{len(names)}"
        yield f"{indent}input {names[value.name]}: {_type(value)}"
    for tensor in graph.initializer:
        contents = onnx.numpy_helper.to_array(tensor)
        names[tensor.name] = f"{contents.dtype}{list(contents.shape)}{contents.tobytes()[:64].hex()}"
    for node in graph.node:
        inputs = [names.get(name, "-") for name in node.input]
        attributes = sorted(
            f"{a.name}={helper.printable_attribute(a) if not a.HasField('g') else 'graph'}" for a in node.attribute
        )
        for name in node.output:
            names[name] = f"%{len(names)}"
        outputs = [names[name] for name in node.output]
        yield f"{indent}{', '.join(outputs)} = {node.domain}{node.op_type}({', '.join(inputs)}; {', '.join(attributes)})"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _lines(attribute.g, names, indent + "  ")
    for value in graph.output:
        yield f"{indent}output {names[value.name]}: {_type(value)}"


def _type(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    return f"{tensor.elem_type}{[dim.dim_value or dim.dim_param for dim in tensor.shape.dim]}"
