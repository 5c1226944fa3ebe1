"""Keep products apart from their quantizers at opset 10.

ONNX Runtime 1.32 quantizes the float bias of a product that is quantized, and rounds it with Round. Opset 10 has no Round: ONNX
Runtime then refuses its own model.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, producer

__all__ = ["ApartFromQuantizers"]

_ROUND = 11
_ACTIVATIONS = ("Clip", "LeakyRelu", "Relu")


class ApartFromQuantizers(QuantizedPass):
    """Insert a Sum of one term between a product and a QuantizeLinear."""

    operators = frozenset({"Add", "Conv", "ConvTranspose", "Gemm"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        result = node.outputs[0]
        if editor.opset >= _ROUND or result.dtype is None or not _is_quantized(result):
            return False
        if node.op_type == "Add" and not any(producer(value, "MatMul") for value in node.inputs):
            return False
        apart = editor.insert(node, "Sum", [result], like=result, dtype=result.dtype, after=True)
        editor.replace(result, apart, but=apart.producer())
        return True


def _is_quantized(result: ir.Value) -> bool:
    """Whether a QuantizeLinear uses a result, with at most an activation before it."""
    users = [user for user, _ in result.uses() if not user.domain]
    return any(
        user.op_type == "QuantizeLinear" or (user.op_type in _ACTIVATIONS and _is_quantized(user.outputs[0])) for user in users
    )
