"""Compare a symbolic's output dtype and shape with those that torch recorded."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from onnxexp._builder.tensor import Tensor
from onnxexp._functionalize.emit import differ
from onnxexp._neutral_graph import Dim, TensorType, Value


def output_mismatch(value: Value, result: Any, *, shapes: bool = True, symbols: Set[Dim] = frozenset()) -> str:
    """Describe a certain difference from the captured value, or "", see `differ`."""
    if not isinstance(value.type, TensorType) or result is None:
        return ""
    sizes: Sequence[Dim] | None = ()
    if isinstance(result, Tensor):
        if value.type.dtype is not None and result.inferred_dtype not in (None, value.type.dtype):
            return f"returns {result.known_dtype} where torch returns {value.type.dtype} (%{value.name})"
        sizes = result.shape if shapes else None
    elif not isinstance(result, (bool, int, float)):
        return f"returns {result!r} where torch returns {value}"
    if shapes and differ(sizes, value.type.sizes, symbols):
        return f"returns [{', '.join(map(str, sizes or ()))}] where torch returns {value}: another shape"
    return ""
