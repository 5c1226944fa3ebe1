"""Describe the declared limits of a symbolic."""

from __future__ import annotations

from onnxexp._symbolics.table import Symbolic


def limits(symbolic: Symbolic) -> str:
    """Return an entry's limits, such as ``opset 13 to 17, float32``.

    An entry without limits gives "every opset".
    """
    parts = []
    if symbolic.since and symbolic.until is not None:
        parts.append(f"opset {symbolic.since} to {symbolic.until}")
    elif symbolic.since or symbolic.until is not None:
        parts.append(f"opset {symbolic.since} on" if symbolic.since else f"up to opset {symbolic.until}")
    if symbolic.dtypes is not None:
        parts.append(", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in symbolic.dtypes)))
    if symbolic.static_shapes:
        parts.append("static shapes")
    return ", ".join(parts) or "every opset"
