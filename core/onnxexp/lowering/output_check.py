"""Compare a symbolic's output dtype and shape with what torch recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp.builder.tensor import Tensor
from onnxexp.neutral_graph import Dim, TensorType, Value

__all__ = ["output_mismatch"]


def output_mismatch(value: Value, result: Any, *, shapes: bool = False) -> str:
    """Describe a certain difference in kind or dtype from the captured value, or "".

    `shapes` compares shapes too. The core leaves that out: a symbolic may return an empty tensor for an unused output.
    """
    if not isinstance(value.type, TensorType) or result is None:
        return ""
    sizes: Sequence[Dim] | None = ()
    if isinstance(result, Tensor):
        if value.type.dtype is not None and result.inferred_dtype not in (None, value.type.dtype):
            return f"returns {result.known_dtype} where torch returns {value.type.dtype} (%{value.name})"
        sizes = result.known_shape
    elif not isinstance(result, (bool, int, float)):
        return f"returns {result!r} where torch returns {value}"
    if shapes and _differ(sizes, value.type.sizes):
        return f"returns [{', '.join(map(str, sizes or ()))}] where torch returns {value}: another shape"
    return ""


def _differ(sizes: Sequence[Dim] | None, others: Sequence[Dim] | None) -> bool:
    if sizes is None or others is None:
        return False
    return len(sizes) != len(others) or any(
        isinstance(one, int) and isinstance(other, int) and one != other for one, other in zip(sizes, others, strict=True)
    )
