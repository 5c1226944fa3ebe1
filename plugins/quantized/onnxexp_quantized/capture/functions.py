"""All torch functions that take quantized tensors, and the call of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxexp import CaptureError
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
from onnxexp_quantized.capture.function_table import FunctionTable, name_of

__all__ = ["FUNCTIONS", "call"]

FUNCTIONS = FunctionTable()
"""The implementations on stand-ins."""

FUNCTIONS.include(parameters.table, layout.table, writing.table, prepacking.table, convolution_and_linear.table)
FUNCTIONS.include(arithmetic.table, activation.table, normalization.table, pooling_and_resampling.table)
FUNCTIONS.include(dynamic.table, embedding.table, recurrent.table)


def call(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with quantized tensors among its arguments.

    Raises CaptureError for a function that has no implementation on them.
    """
    implementation = FUNCTIONS.find(name_of(func))
    if implementation is None:
        raise CaptureError(
            f"{name_of(func)} is called with a quantized tensor, and onnxexp-plugin-quantized has no implementation of it; "
            "cure: dequantize before that line, and quantize after it"
        )
    return implementation(func, args, kwargs)
