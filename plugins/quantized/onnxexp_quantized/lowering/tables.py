"""The tables of all modules, merged by namespace."""

from __future__ import annotations

from onnxexp import SymbolicTable
from onnxexp_quantized.lowering import choose_parameters, dynamic, quantize_and_dequantize, recurrent

__all__ = ["onnxexp_quantized", "quantized_decomposed"]

quantized_decomposed = SymbolicTable("quantized_decomposed")
"""The symbolics of decomposed quantized graphs."""

quantized_decomposed.include(quantize_and_dequantize.table, choose_parameters.table)

onnxexp_quantized = SymbolicTable("onnxexp_quantized")
"""The symbolics of the operators that the captures of this plugin emit."""

onnxexp_quantized.include(dynamic.table, recurrent.table)
