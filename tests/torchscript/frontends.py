"""The aten plugin's cases, exported through both frontends, as comparable texts."""

from __future__ import annotations

import hashlib
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
    """Yield every case that runs at `OPSET` and passes, under a name of its own."""
    for info in pkgutil.walk_packages(tests.aten.__path__, "tests.aten."):
        if not info.name.rpartition(".")[2].startswith("test_"):
            continue
        place = info.name.removeprefix("tests.aten.").replace("test_", "", 1)
        module = importlib.import_module(info.name)
        seen: dict[int, Case] = {}
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", []) if callable(test) else []:
                parameters = mark.args[1] if mark.name == "parametrize" and mark.args[0] == "check" else []
                seen.update({id(p.values[0].case): p.values[0].case for p in parameters if hasattr(p.values[0], "case")})
        for number, case in enumerate(seen.values()):
            if OPSET in case.opsets and not case.xfail:
                yield f"{place}-{number}-{case.name}", case


def text_of(case: Case, capture: str) -> str:
    """Export a case as text, independent of names and order, with weights by contents."""
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


def _lines(graph: onnx.GraphProto, outer: dict[str, str], indent: str) -> Iterator[str]:
    """Yield a sorted line for each node; a value is named after how it is computed."""
    names = dict(outer)
    for place, value in enumerate(graph.input):
        names[value.name] = f"%{len(indent)}.{place}"
        yield f"{indent}input {names[value.name]}: {_type(value)}"
    for tensor in graph.initializer:
        contents = onnx.numpy_helper.to_array(tensor)
        names[tensor.name] = f"{contents.dtype}{list(contents.shape)}{contents.tobytes()[:64].hex()}"
    yield from sorted(_line(node, names, indent) for node in graph.node)
    for value in graph.output:
        yield f"{indent}output {names[value.name]}: {_type(value)}"


def _line(node: onnx.NodeProto, names: dict[str, str], indent: str) -> str:
    attributes = sorted(f"{a.name}={helper.printable_attribute(a) if not a.HasField('g') else 'graph'}" for a in node.attribute)
    inner = [line for a in node.attribute if a.HasField("g") for line in _lines(a.g, names, indent + "  ")]
    call = f"{node.domain}{node.op_type}({', '.join(names.get(name, '-') for name in node.input)}; {', '.join(attributes)})"
    text = "\n".join([call, *inner])
    for place, name in enumerate(node.output):
        names[name] = f"%{hashlib.sha1(text.encode()).hexdigest()[:8]}.{place}"
    return f"{indent}{', '.join(names[name] for name in node.output)} = {text}"


def _type(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    return f"{tensor.elem_type}{[dim.dim_value or dim.dim_param for dim in tensor.shape.dim]}"
