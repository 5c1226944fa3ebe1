"""A finished graph in the form that torch.onnx prints.

An example of a line is ``%3 : Float(2, 4) = onnx::Relu(%2), scope: Model/ReLU[act] # model.py:7``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onnxexp.commands import one_line
from onnxexp.frontends import is_scripted
from onnxexp_torch_onnx.scalar_type import JitScalarType

PARAMETER = "onnxexp_torch_onnx.parameter"
"""The key of a value's metadata under which the position of a parameter stands."""

_BLOCKS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_SHOWN = 8
"""Elements up to which a constant is printed."""


def graph_text(model: ir.Model, original: Any) -> str:
    """Format the main graph as text: typed inputs and parameters, nodes, results.

    Initializers that are no parameters (see `PARAMETER`) are printed as constants.

    Args:
        model: The exported model.
        original: The module that was exported, for the classes in the scopes.
    """
    graph = model.graph
    parameters = [value for value in graph.initializers.values() if PARAMETER in value.meta]
    inputs = dict.fromkeys([*graph.inputs, *sorted(parameters, key=lambda value: value.meta[PARAMETER])])
    separator = ",\n      "
    declared = separator.join(_ascii(_declared(value)) for value in inputs)
    lines = [
        f"  {_declared(value)} = onnx::Constant[value={_tensor(value.const_value)}]()"
        for value in graph.initializers.values()
        if value not in inputs and value.const_value is not None
    ]
    writer = _Writer(_classes(original), model.opset_imports)
    lines += [*writer.nodes(graph, 1), f"  return ({_names(graph.outputs)})", "}"]
    return "\n".join([f"graph({declared}) {{", *map(_ascii, lines)])


def _ascii(line: str) -> str:
    return one_line(line).encode("ascii", "backslashreplace").decode("ascii")


class _Writer:
    """Format the nodes of one model."""

    def __init__(self, classes: Mapping[str, str], opsets: Mapping[str, int]) -> None:
        self._classes = classes
        self._opsets = opsets

    def nodes(self, graph: Sequence[ir.Node] | ir.Graph, depth: int) -> Iterator[str]:
        """Yield the lines of a graph's nodes."""
        indent = "  " * depth
        for node in graph:
            kind = f"{node.domain or 'onnx'}::{node.op_type}"
            attributes = ", ".join(f"{name}={text}" for name, text in sorted(self._attributes(node).items()))
            results = ", ".join(_declared(value) for value in node.outputs if value.name)
            call = f"{kind}{f'[{attributes}]' if attributes else ''}({_names(node.inputs)})"
            yield f"{indent}{results} = {call}{self._scope(node)}{_line(node)}"
            blocks = [each for attr in node.attributes.values() if attr.type in _BLOCKS for each in _graphs(attr)]
            for number, block in enumerate(blocks):
                yield f"{indent}  block{number}({', '.join(map(_declared, block.inputs))}):"
                yield from self.nodes(block, depth + 2)
                yield f"{indent}    -> ({_names(block.outputs)})"

    def _attributes(self, node: ir.Node) -> dict[str, str]:
        """Format a node's attributes, and the operator's defaults for omitted ones."""
        shown = {name: _attribute(attr) for name, attr in node.attributes.items() if attr.type not in _BLOCKS}
        version = self._opsets.get(node.domain)
        if version is None or not onnx.defs.has(node.op_type, version, node.domain):
            return shown
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        defaults = {name: attr.default_value for name, attr in schema.attributes.items() if attr.default_value.name}
        return {name: _attribute(ir.serde.deserialize_attribute(value)) for name, value in defaults.items()} | shown

    def _scope(self, node: ir.Node) -> str:
        """Format a node's scope: ``, scope: AlexNet/Sequential[features]/Conv2d[0]``."""
        scope = node.metadata_props.get("onnxexp.scope", "")
        names = scope.split(".") if scope else []
        paths = [".".join(names[: count + 1]) for count in range(len(names))]
        parts = [f"{self._classes.get(path, 'Module')}[{name}]" for path, name in zip(paths, names, strict=True)]
        root = [self._classes[""]] if "" in self._classes else []
        return f", scope: {'/'.join([*root, *parts])}" if root or parts else ""


def _classes(original: Any) -> dict[str, str]:
    """Name each module's class, by path."""
    if not isinstance(original, torch.nn.Module):
        return {}
    return {
        path: str(module.original_name) if is_scripted(module) else type(module).__name__
        for path, module in original.named_modules()
    }


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    return [attribute.as_graph()] if attribute.type is ir.AttributeType.GRAPH else list(attribute.as_graphs())


def _line(node: ir.Node) -> str:
    source = node.metadata_props.get("onnxexp.source", "")
    return f" # {source}" if source else ""


def _declared(value: ir.Value) -> str:
    return f"%{value.name} : {_type(value.type, value.shape)}"


def _names(values: Sequence[ir.Value | None]) -> str:
    return ", ".join("%none" if value is None else f"%{value.name}" for value in values)


def _type(type_: ir.TypeProtocol | None, shape: ir.Shape | None) -> str:
    if isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        inner = _type(type_.elem_type, shape)
        return f"{inner}[]" if isinstance(type_, ir.SequenceType) else f"{inner}?"
    if type_ is None or type_.dtype is ir.DataType.STRING:
        return "Tensor" if type_ is None else "str"
    known = [each for each in JitScalarType if each.onnx_compatible() and int(each.onnx_type()) == int(type_.dtype)]
    name = known[0].scalar_name() if known else type_.dtype.name.capitalize()
    if shape is None:
        return f"{name}(*)"
    return f"{name}({', '.join(str(size) if isinstance(size, int) else str(size.value or '*') for size in shape)})"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value: Any = attribute.value
    if attribute.type is ir.AttributeType.TENSOR:
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_number, value))}]"
    return _number(value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f'"{value}"' if isinstance(value, str) else str(value)


def _tensor(tensor: ir.TensorProtocol) -> str:
    if tensor.size > _SHOWN or tensor.dtype is ir.DataType.STRING:
        return "<Tensor>"
    values = [_number(each) for each in tensor.numpy().reshape(-1).tolist()]
    return f"{{{values[0]}}}" if tensor.size == 1 else f"[ {' '.join(values)} ]"
