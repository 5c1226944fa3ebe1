"""Fuse ``x * sigmoid(alpha * x)``: SiLU, and the fast form of GELU."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir

from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_ort.domain import DOMAIN


def _quick_gelu(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    if node.outputs[0].dtype != ir.DataType.FLOAT:
        return None
    for x, gate in (node.inputs, node.inputs[::-1]):
        maker = None if gate is None else gate.producer()
        if x is None or maker is None or maker.op_type != "Sigmoid" or maker.domain:
            continue
        alpha = _factor(maker.inputs[0], x)
        if alpha is not None:
            return rewriter.emit("QuickGelu", [x], {"alpha": alpha}, sizes=rewriter.dims(node.outputs[0]), domain=DOMAIN)[0]
    return None


def _factor(value: ir.Value | None, x: ir.Value) -> float | None:
    """Return the number by which x is multiplied, 1 for x itself.

    The result is None for another value.
    """
    if value is x:
        return 1.0
    node = None if value is None else value.producer()
    if node is None or node.op_type != "Mul" or node.domain:
        return None
    for own, other in (node.inputs, node.inputs[::-1]):
        known = None if other is None or other.is_graph_input() else other.const_value
        if own is x and known is not None and known.size == 1 and Rewriter.dims(value) == Rewriter.dims(x):
            return float(known.numpy().reshape(-1)[0])
    return None


class FuseQuickGelu(RewritePass):
    """QuickGelu reads its input once."""

    rules = MappingProxyType({"Mul": _quick_gelu})
