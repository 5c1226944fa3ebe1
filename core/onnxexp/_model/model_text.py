"""Print an ONNX model with values, types, nodes, module scopes and source lines.

The text is ASCII only, so that it prints on every terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from onnxexp._model.declared_sizes import SIZES_KEY
from onnxexp._model.type_text import ascii_text, bytes_text, type_text

_INLINE = 8
"""Elements up to which a constant is shown by its contents."""

_DTYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "stash_type", "softmax_precision"}
"""Attributes that are numbers in the file and element types to people."""


def render(model: ir.Model) -> str:
    """Write the whole model: header, inputs, outputs, initializers, nodes, functions."""
    graph = model.graph
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opset_imports.items())
    producer = " ".join(part for part in (model.producer_name, model.producer_version) if part)
    lines = [f"# {', '.join(part for part in (producer, f'ONNX IR {model.ir_version}', f'opset {opsets}') if part)}"]
    lines += [f"# initializers: {initializers_text(graph)}"]
    lines += [f"# size: {size}" for size in model.metadata_props.get(SIZES_KEY, "").split("; ") if size]
    lines += _signature(f"graph {graph.name or ''}".rstrip(), graph.inputs, graph.outputs)
    lines += _body(graph, 1)
    lines.append("}")
    for function in model.functions.values():
        lines += ["", *_function(function)]
    return "\n".join(map(ascii_text, lines))


def initializers_text(graph: ir.Graph) -> str:
    """Summarize the initializers, such as ``12 (1.5 MB): 10 float32, 2 int64``."""
    tensors = [value.const_value for value in graph.initializers.values() if value.const_value is not None]
    if not tensors:
        return str(len(graph.initializers)) if graph.initializers else "none"
    kinds = Counter(type_text(tensor.dtype) for tensor in tensors)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{len(graph.initializers)} ({bytes_text(sum(tensor.nbytes for tensor in tensors))}): {listed}"


def _signature(title: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> list[str]:
    lines = [f"{title} ("]
    lines += [f"    {_declared(value)}," for value in inputs]
    if outputs:
        lines += [") -> ("]
        lines += [f"    {_declared(value)}," for value in outputs]
    return [*lines, ") {"]


def _function(function: ir.Function) -> Iterator[str]:
    name = f"{function.domain}.{function.name}" + (f":{function.overload}" if function.overload else "")
    parameters = [*(f"%{value.name}" for value in function.inputs), *map(str, function.attributes)]
    yield f"function {name}({', '.join(parameters)}) {{"
    yield from _body(function, 1)
    yield f"  return {_names(function.outputs)}"
    yield "}"


def _body(graph: ir.Graph | ir.Function, depth: int) -> Iterator[str]:
    """Write the nodes in order, indented below their modules."""
    modules: list[str] = []
    for node in graph:
        scope = node.metadata_props.get("onnxexp.scope", "")
        while modules and scope != modules[-1] and not scope.startswith(modules[-1] + "."):
            modules.pop()
        if scope and (not modules or modules[-1] != scope):
            yield f"{'  ' * (depth + len(modules))}[{scope}]"
            modules.append(scope)
        yield from node_text(node, depth + len(modules))


def node_text(node: ir.Node, depth: int) -> Iterator[str]:
    """Write a node with its blocks, line by line."""
    indent = "  " * depth
    blocks = [attr for attr in node.attributes.values() if attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)]
    outputs = ", ".join(_declared(value) for value in node.outputs if value.name)
    inputs = [_operand(value) for value in node.inputs]
    attributes = [_attribute(attr) for attr in node.attributes.values() if attr not in blocks]
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    source = node.metadata_props.get("onnxexp.source", "")
    comment = f"  # {source}" if source else ""
    yield f"{indent}{outputs} = {operator}({', '.join([*inputs, *attributes])}){comment}"
    for attr in blocks:
        for graph in [attr.value] if attr.type is ir.AttributeType.GRAPH else attr.value:
            yield f"{indent}  {attr.name}({', '.join(map(_declared, graph.inputs))}) {{"
            yield from _body(graph, depth + 2)
            yield f"{indent}    return {_names(graph.outputs)}"
            yield f"{indent}  }}"


def _declared(value: ir.Value) -> str:
    return f"%{value.name}: {type_text(value)}"


def _names(values: Sequence[ir.Value]) -> str:
    return ", ".join(f"%{value.name}" for value in values) or "nothing"


def _operand(value: ir.Value | None) -> str:
    """Write an input of a node, constants by their contents and weights by name."""
    if value is None:
        return "None"
    constant = value.const_value
    if constant is None or value.producer() is not None or value.is_graph_input():
        return f"%{value.name}"
    telling = constant.size == 1 or (constant.dtype.is_integer() and constant.size <= _INLINE)
    return _contents(constant) if telling else f"%{value.name}"


def _attribute(attr: ir.Attr) -> str:
    if attr.is_ref():
        return f"{attr.name}=@{attr.ref_attr_name}"
    return f"{attr.name}={_attribute_value(attr)}"


def _attribute_value(attr: ir.Attr) -> str:
    value: Any = attr.value
    if attr.type is ir.AttributeType.TENSOR:
        return _contents(value) if value.size <= _INLINE else f"<{type_text(value.dtype)}{list(value.shape)}>"
    if attr.type is ir.AttributeType.INT and attr.name in _DTYPE_ATTRIBUTES:
        return type_text(value)
    if attr.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        return _contents(value)
    if isinstance(value, (int, str)):
        return repr(value)
    if attr.type in (ir.AttributeType.INTS, ir.AttributeType.STRINGS):
        return repr(list(value))
    return f"<{attr.type.name.lower()}>"


def _contents(constant: Any) -> str:
    """Write numbers, or (nested) lists of them."""
    if isinstance(constant, ir.TensorProtocol):
        return _contents(constant.numpy().tolist())
    if isinstance(constant, (list, tuple)):
        return f"[{', '.join(map(_contents, constant))}]"
    if isinstance(constant, float):
        # Seven digits distinguish float32 values; the point marks them as floats.
        text = f"{constant:.7g}"
        return text if any(mark in text for mark in ".einf") else f"{text}.0"
    return repr(constant)
