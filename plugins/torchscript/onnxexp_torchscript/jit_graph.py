"""The types that a trace recorded, and the lists that it unpacked."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import TensorType

__all__ = ["recorded", "unpacked"]


def unpacked(node: Any) -> list[Any]:
    """The elements of the list that a node returns, where the tracer has unpacked it; else none."""
    outputs = list(node.outputs())
    users = (use.user for use in outputs[0].uses()) if len(outputs) == 1 else ()
    return next((list(user.outputs()) for user in users if user.kind() == "prim::ListUnpack"), [])


def recorded(value: Any) -> TensorType | None:
    """The type that a trace recorded, None where it is not complete."""
    type_ = value.type()
    if not isinstance(type_, torch._C.TensorType):
        return None
    sizes, dtype = type_.sizes(), type_.dtype()
    return TensorType(dtype, tuple(sizes)) if sizes is not None and dtype is not None else None
