"""The implementations of all torch functions on quantized tensors."""

from __future__ import annotations

from onnxexp_quantized.capture import (
    activation,
    arithmetic,
    convolution_and_linear,
    dynamic,
    embedding,
    layout,
    normalization,
    parameters,
    pooling_and_resampling,
    prepacking,
    recurrent,
    writing,
)
from onnxexp_quantized.capture.function_table import FunctionTable

FUNCTIONS = FunctionTable(
    parameters.table,
    layout.table,
    writing.table,
    prepacking.table,
    convolution_and_linear.table,
    arithmetic.table,
    activation.table,
    normalization.table,
    pooling_and_resampling.table,
    dynamic.table,
    embedding.table,
    recurrent.table,
)
"""All functions that a stand-in can be an argument of. A capture hands them to `stand_ins`."""
