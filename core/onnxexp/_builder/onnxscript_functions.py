"""Convert onnxscript functions to functions of a model, at its opset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnxexp._builder.onnx_schemas import Operator, operator
from onnxexp._errors import LoweringError, OpsetError


def onnxscript_functions(function: Any, opset: int, imports: Mapping[str, int]) -> list[ir.Function]:
    """Define an onnxscript function, then those that it calls, all at `opset`.

    `imports` are the versions at which the model imports other domains.

    Raises:
        OpsetError: It was written for another opset, and one of its operators changed its meaning.
        LoweringError: It is no onnxscript function.
    """
    if not hasattr(function, "to_function_proto"):
        raise LoweringError(f"{function!r} is no onnxscript function: write it with @onnxscript.script(opset)")
    definition = getattr(function, "function_ir", None)  # older onnxscript has no list of called functions
    called = [] if definition is None else list(definition.get_called_functions().values())
    found = [ir.from_proto(each.to_function_proto()) for each in (function, *called)]
    for each in found:
        _align(each, opset)
        each.opset_imports.update({domain: version for domain, version in imports.items() if domain in each.opset_imports})
    return found


def _align(function: ir.Function, opset: int) -> None:
    written = function.opset_imports.get("", opset)
    if written != opset:
        for node in function.all_nodes():
            before, after = operator(node.domain, node.op_type, written), operator(node.domain, node.op_type, opset)
            if node.domain == "" and not _means_the_same(before, after):
                raise OpsetError(
                    f"the onnxscript function {function.name} is written for opset {written}; {node.op_type} is another operator "
                    f"at opset {opset}: write it for opset {opset}, or export at opset {written}",
                    written,
                )
    function.opset_imports[""] = opset


def _means_the_same(before: Operator | None, after: Operator | None) -> bool:
    """Return whether two versions agree up to wider types and new optional parts."""
    if before is None or after is None:
        return False
    if before.since == after.since:
        return True
    older, newer = sorted((before, after), key=lambda each: each.since)
    same_inputs = [each.name for each in older.inputs] == [each.name for each in newer.inputs[: len(older.inputs)]]
    shared = older.attributes.keys() <= newer.attributes.keys()
    return same_inputs and shared and all(older.attributes[name] == newer.attributes[name] for name in older.attributes)
