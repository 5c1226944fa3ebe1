"""The nodes of a TorchScript block and their values, in order: torch's own iterators take ten times as long to make.

What is asked of torch here makes an object or a text each time: most of what reading a graph takes is that.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.graph import TensorType

__all__ = ["given_by", "given_to", "inputs_of", "nodes_of", "outputs_of", "recorded", "unpacked"]


def nodes_of(block: Any) -> list[tuple[str, Any]]:
    """The nodes of a block but for its constants, which are most of them, each with its kind."""
    found = []
    node = block.returnNode().prev()
    while (kind := node.kind()) != "prim::Param":
        if kind != "prim::Constant":
            found.append((kind, node))
        node = node.prev()
    return found[::-1]


def given_to(block: Any) -> list[Any]:
    """What a block takes."""
    return outputs_of(block.paramNode())


def given_by(block: Any) -> list[Any]:
    """What a block gives."""
    return inputs_of(block.returnNode())


def inputs_of(node: Any) -> list[Any]:
    """What the node takes."""
    return [node.inputsAt(index) for index in range(node.inputsSize())]


def outputs_of(node: Any) -> list[Any]:
    """What the node gives."""
    return [node.outputsAt(index) for index in range(node.outputsSize())]


def unpacked(node: Any) -> list[Any]:
    """The elements of the list that a node gives, where the tracer has unpacked it; else none."""
    outputs = outputs_of(node)
    users = (use.user for use in outputs[0].uses()) if len(outputs) == 1 else ()
    return next((outputs_of(user) for user in users if user.kind() == "prim::ListUnpack"), [])


def recorded(value: Any) -> TensorType | None:
    """The type that a trace recorded, None where it is not complete."""
    type_ = value.type()
    if not isinstance(type_, torch._C.TensorType):
        return None
    sizes, dtype = type_.sizes(), type_.dtype()
    return TensorType(dtype, tuple(sizes)) if sizes is not None and dtype is not None else None
