"""Give custom operators a body: a function of the model that any runtime can run.

A runtime with a kernel for the operator uses the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnxexp import ExportContext, OptionError
from onnxexp.rewriting import onnxscript_functions
from onnxexp_custom_cpp.argument_mapping import ArgumentMapping
from onnxexp_custom_cpp.bodies.traced_body import traced_body
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
