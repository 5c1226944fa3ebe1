"""Reshape to sizes that are 0 at run time."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["AllowZeroSizes"]


class AllowZeroSizes(ir.passes.InPlacePass):
    """Set ``allowzero`` of each Reshape to sizes computed at run time.

    Without it a size that happens to be 0 means a copy of the argument's size. Opset 14 is the first with this attribute.
    """

    last = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        changed = False
        for node in model.graph.all_nodes() if model.opset_imports.get("", 0) >= 14 else ():
            if node.op_type == "Reshape" and not node.domain and "allowzero" not in node.attributes and _computes_sizes(node):
                node.attributes.add(ir.AttrInt64("allowzero", 1))
                changed = True
        return ir.passes.PassResult(model, changed)


def _computes_sizes(node: ir.Node) -> bool:
    """Whether the target is computed, and no constant 0 in it means a copy."""
    target = node.inputs[1]
    maker = None if target is None else target.producer()
    if maker is None or maker.op_type == "Constant":
        return False
    parts = maker.inputs if maker.op_type == "Concat" else [target]
    known = [part.const_value.numpy() for part in parts if part is not None and part.const_value is not None]
    return not any((numbers == 0).any() for numbers in known)
