"""Recorded types and unpacked lists of a traced graph."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.graph import TensorType
from onnxexp_torchscript.jit.jit_nodes import outputs


def unpacked(node: Any) -> list[Any]:
    """Return the elements that a traced `prim::ListUnpack` takes from a node's list."""
    users = (use.user for use in node.output().uses()) if node.outputsSize() == 1 else ()
    return next((outputs(user) for user in users if user.kind() == "prim::ListUnpack"), [])


def recorded(value: Any) -> TensorType | None:
    """Return the type that a trace recorded, or None if incomplete."""
    type_ = value.type()
    if not isinstance(type_, torch._C.TensorType):
        return None
    sizes, dtype = type_.sizes(), type_.dtype()
    return TensorType(dtype, tuple(sizes)) if sizes is not None and dtype is not None else None
