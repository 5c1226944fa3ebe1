"""Collect the implementations of all torch functions on quantized tensors.

The import of this module fills the table.
"""

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
from onnxexp_quantized.capture.function_table import FUNCTIONS

FUNCTIONS.include(parameters.table, layout.table, writing.table, prepacking.table, convolution_and_linear.table)
FUNCTIONS.include(arithmetic.table, activation.table, normalization.table, pooling_and_resampling.table)
FUNCTIONS.include(dynamic.table, embedding.table, recurrent.table)
