"""Export the body of a custom operator for one call, as a function of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

import onnxexp
from onnxexp import LoweringError, OnnxExporterError, Options
from onnxexp.rewriting import torch_dtype
from onnxexp.torch_ops import overload as torch_operator
from onnxexp_custom_cpp.argument_mapping import ArgumentMapping, type_name
from onnxexp_custom_cpp.bodies.bodies_in_progress import body_in_progress
from onnxexp_custom_cpp.operators import Operator

_SIZES = (5, 7, 3, 11, 13, 17, 19, 23)
"""Sizes of the example's dynamic axes, by the order of their names."""


def traced_body(
    operator: Operator, mapping: ArgumentMapping, node: ir.Node, overload: str, options: Options
) -> list[ir.Function]:
    """Export the body for the attributes, dtypes and known sizes of a node.

    Returns the function of the operator, then those that it calls.

    Raises LoweringError where the body cannot be exported.
    """
    call = _Call(operator, mapping, node)
    with body_in_progress(operator.onnx):
        try:
            program = onnxexp.export(
                call, tuple(call.example), opset_version=options.opset, capture="auto",
                target="onnx" if options.target == "onnx" else "onnxruntime",
                dynamic_shapes=(tuple(call.axes),) if call.axes else None, custom_opsets=options.custom_opsets,
                input_names=call.names,
            )  # fmt: skip
        except OnnxExporterError as error:
            raise LoweringError(
                f"the body of {operator.onnx} cannot be exported for {_types(node)}: {error}; give an onnxscript function instead"
            ) from error
    return [_function(program.model, operator, overload, node), *program.model.functions.values()]


class _Call(torch.nn.Module):
    """A call of a body with the constants of a node.

    Attributes:
        example: A tensor for each input of the node that is there.
        axes: The names of their dynamic axes.
        names: The names of the function's inputs.
    """

    def __init__(self, operator: Operator, mapping: ArgumentMapping, node: ir.Node) -> None:
        super().__init__()
        self._body: Any = operator.body if callable(operator.body) else torch_operator(mapping.name)
        self._mapping, self._constants = mapping, _constants(mapping, node)
        self._present = [value is not None for value in node.inputs]
        numbers: dict[str, int] = {}
        self.example: list[torch.Tensor] = []
        self.axes: list[dict[int, str]] = []
        self.names: list[str] = []
        formals = [each.name for each in mapping.schema.arguments if each.name not in mapping.attributes]
        for index, value in enumerate(node.inputs):
            if value is not None:
                self.names.append(formals[index] if len(formals) == len(node.inputs) else f"input_{index}")
                tensor, named = _example(value, numbers)
                self.example.append(tensor)
                self.axes.append(named)

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        inputs = [next(given) if there else None for there in self._present]
        return self._body(*self._arguments(inputs))

    def _arguments(self, inputs: Sequence[torch.Tensor | None]) -> Iterator[Any]:
        """Yield the arguments of the schema, in order."""
        formals = self._mapping.schema.arguments
        left = list(inputs)
        taken = sum(each.name not in self._mapping.attributes for each in formals)
        for formal in formals:
            if formal.name in self._mapping.attributes:
                yield self._constants[formal.name]
            elif type_name(formal).startswith("List[") and "Tensor" in type_name(formal):
                count = len(inputs) - taken + 1
                yield [left.pop(0) for _ in range(count)]
            else:
                tensor = left.pop(0) if left else None
                yield tensor if tensor is None or type_name(formal) == "Tensor" else tensor.tolist()


def _constants(mapping: ArgumentMapping, node: ir.Node) -> Mapping[str, Any]:
    """Return the Python value of each argument that is an attribute."""
    found: dict[str, Any] = {}
    for argument in mapping.schema.arguments:
        name = mapping.attributes.get(argument.name)
        if name is None:
            continue
        attribute = node.attributes.get(name)
        value = None if attribute is None else attribute.value
        kind = type_name(argument)
        if value is not None and kind == "bool":
            value = bool(value)
        elif value is not None and kind == "ScalarType":
            value = torch_dtype(int(value))
        found[argument.name] = list(value) if isinstance(value, (list, tuple)) else value
    return found


def _example(value: ir.Value, numbers: dict[str, int]) -> tuple[torch.Tensor, dict[int, str]]:
    """Return a tensor of an input's type, and the names of its dynamic axes."""
    if value.dtype is None or value.shape is None:
        raise LoweringError(f"the rank of {value.name} must be known for the body of an operator: give an onnxscript function")
    sizes: list[int] = []
    named: dict[int, str] = {}
    for axis, size in enumerate(value.shape):
        if isinstance(size, int):
            sizes.append(size)
        else:
            text = str(size.value) if size.value is not None else f"{value.name}_{axis}"
            name = text if text.isidentifier() else f"size_{axis}_of_{len(numbers)}"
            sizes.append(numbers.setdefault(text, _SIZES[len(numbers) % len(_SIZES)]))
            named[axis] = name
    return torch.zeros(sizes, dtype=torch_dtype(value.dtype)), named


def _function(model: ir.Model, operator: Operator, overload: str, node: ir.Node) -> ir.Function:
    """Return the model's graph as a function; initializers become constants."""
    graph = model.graph
    for value in list(graph.initializers.values()):
        assert value.const_value is not None
        constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", value.const_value)])
        value.replace_all_uses_with(constant.outputs[0])
        constant.outputs[0].name = f"{value.name}_constant"
        if len(graph):
            graph.insert_before(graph[0], constant)
        else:
            graph.append(constant)
        del graph.initializers[value.name or ""]
    declared = [ir.Attr(each.name, each.type, None) for each in node.attributes.values()]
    return ir.Function(operator.domain, operator.name, overload, graph=graph, attributes=declared)


def _types(node: ir.Node) -> str:
    return ", ".join("nothing" if value is None else f"{value.dtype}{value.shape}" for value in node.inputs)
