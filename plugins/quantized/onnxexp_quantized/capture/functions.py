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
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

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
    name = name_of(func)
    implementation = FUNCTIONS.find(name)
    if implementation is None:
        raise CaptureError(
            f"{name} is called with a quantized tensor, and onnxexp-plugin-quantized has no implementation of it; "
            "to fix this, dequantize before that line, and quantize after it"
        )
    if isinstance(kwargs.get("out"), QuantizedTensor) and not name.startswith("quantized::"):
        raise CaptureError(
            f"{name} is called with a quantized tensor as `out`, and torch's operators do not agree on the scale of its result; "
            "to fix this, call it without `out`, and use what it returns"
        )
    return implementation(func, args, kwargs)
