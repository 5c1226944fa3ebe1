"""The tables of all modules, merged by namespace."""

from __future__ import annotations

from onnxexp import SymbolicTable
from onnxexp_quantized.lowering import choose_parameters, quantize_and_dequantize

__all__ = ["quantized_decomposed"]

quantized_decomposed = SymbolicTable("quantized_decomposed")
"""The symbolics of decomposed quantized graphs."""

quantized_decomposed.include(quantize_and_dequantize.table, choose_parameters.table)
