"""The symbolic tables of this package, merged by namespace."""

from __future__ import annotations

from onnxexp import SymbolicTable
from onnxexp_quantized.lowering import (
    choose_parameters,
    dynamic_quantization,
    fake_quantization,
    integer_products,
    quantize_and_dequantize,
    recurrent,
    stored_weights,
    torchao_affine,
)

_decomposed = SymbolicTable("quantized_decomposed")
_decomposed.include(quantize_and_dequantize.table, choose_parameters.table)

_of_captures = SymbolicTable("onnxexp_quantized")
_of_captures.include(dynamic_quantization.table, recurrent.table)

_aten = SymbolicTable("aten")
_aten.include(fake_quantization.table, integer_products.table)

TABLES = (_decomposed, _of_captures, torchao_affine.table, _aten, stored_weights.table)
"""The symbolics of decomposed graphs, of this plugin's own operators, of torchao's, of ATen's, and of torch.export's."""
