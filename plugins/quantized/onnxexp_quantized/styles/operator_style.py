"""The pass that writes a model in another style than QDQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass
from onnxexp_quantized.styles import products
from onnxexp_quantized.styles.dynamic_products import dynamic_product
from onnxexp_quantized.styles.elementwise import OPERATORS, quantized_elementwise

_Rule: TypeAlias = Callable[[ir.Node, GraphEditor], bool]

_OF_ONNX: Mapping[str, _Rule] = {
    "Conv": products.convolution,
    "Gemm": products.integer_gemm,
    "MatMul": products.integer_matmul,
}
_OF_MICROSOFT: Mapping[str, _Rule] = {
    "Conv": products.convolution,
    "Gemm": products.gemm_of_microsoft,
    "MatMul": products.matmul_of_microsoft,
    "MatMulInteger": dynamic_product,
    **dict.fromkeys(OPERATORS, quantized_elementwise),
}
_RULES: Mapping[str, Mapping[str, _Rule]] = {"qdq": {}, "qoperator": _OF_ONNX, "ort": _OF_MICROSOFT}
STYLES = tuple(_RULES)
"""The values of the plugin's option `style`."""


class OperatorStyle(QuantizedPass):
    """Replace operators between DequantizeLinear and QuantizeLinear by quantized ones.

    The style "qoperator" uses ONNX's own operators, "ort" those of com.microsoft too, and "qdq" replaces nothing.
    """

    def __init__(self, style: str) -> None:
        self._rules = _RULES[style]
        self.operators = frozenset(self._rules)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        result = super().call(model)
        if any(node.domain == products.MICROSOFT for node in model.graph.all_nodes()):
            model.graph.opset_imports.setdefault(products.MICROSOFT, 1)
        return result

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        return self._rules[node.op_type](node, editor)
