"""Give custom operators a body: a function of the model that any runtime can run.

A runtime with a kernel for the operator uses the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

import onnxexp
from onnxexp import ExportContext, LoweringError, OnnxExporterError, OptionError, Options
from onnxexp.rewriting import onnxscript_functions, torch_dtype
from onnxexp.torch_ops import overload as torch_operator
from onnxexp_custom_cpp.argument_mapping import ArgumentMapping, type_name
from onnxexp_custom_cpp.bodies.bodies_in_progress import body_in_progress
from onnxexp_custom_cpp.operators import EMITTED, Operator

_FUNCTIONS = 8
"""The first IR version with functions."""
_OVERLOADS = 10
"""The first IR version with several functions of one name."""


class AddBodies(ir.passes.InPlacePass):
    """Add the bodies of the model's custom operators.

    A traced body is right for the attributes, dtypes and known sizes of one call. Calls that differ get functions of one name
    that differ in ONNX's field `overload`.
    """

    name = "add-bodies"

    def __init__(self, context: ExportContext) -> None:
        super().__init__()
        self._context = context

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        emitted: Mapping[str, tuple[Operator, ArgumentMapping]] = self._context.plugin_data.get(EMITTED) or {}
        with_body = {name: each for name, each in emitted.items() if each[0].body is not None}
        overloads: dict[str, dict[Any, str]] = {}
        nodes = [*model.graph.all_nodes(), *(node for each in model.functions.values() for node in each.all_nodes())]
        for node in nodes if with_body else ():
            operator, mapping = with_body.get(f"{node.domain}::{node.op_type}", (None, None))
            if operator is None or mapping is None:
                continue
            known = overloads.setdefault(operator.onnx, {})
            key = None if _is_onnxscript(operator.body) else _signature(node)
            if key not in known:
                known[key] = str(len(known) + 1) if known else ""
                _add(model, operator, mapping, node, known[key], self._context)
            node.overload = known[key]
        if overloads:
            needed = _OVERLOADS if any(len(known) > 1 for known in overloads.values()) else _FUNCTIONS
            model.ir_version = max(model.ir_version, needed)
        return ir.passes.PassResult(model, modified=bool(overloads))


def _is_onnxscript(body: Any) -> bool:
    return hasattr(body, "to_function_proto")  # onnxscript, which the plugin does not need, has the class


def _signature(node: ir.Node) -> Any:
    """Return what a traced body depends on."""
    attributes = sorted((name, str(each.value)) for name, each in node.attributes.items())
    return tuple(attributes), tuple(None if each is None else (each.dtype, str(each.shape)) for each in node.inputs)


def _add(
    model: ir.Model, operator: Operator, mapping: ArgumentMapping, node: ir.Node, overload: str, context: ExportContext
) -> None:
    if _is_onnxscript(operator.body):
        functions = onnxscript_functions(operator.body, context.options.opset, context.options.custom_opsets)
        name = f"{functions[0].domain}::{functions[0].name}"
        if name != operator.onnx:
            raise OptionError(f"the body of {operator.onnx} is the onnxscript function {name}: give it that domain and name")
    else:
        functions = traced_body(operator, mapping, node, overload, context.options)
    for function in functions:
        model.functions[function.identifier()] = function
        for domain, version in function.opset_imports.items():
            model.graph.opset_imports.setdefault(domain, version)


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
