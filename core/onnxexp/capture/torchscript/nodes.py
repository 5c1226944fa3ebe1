"""The values of a TorchScript node, in order: torch's own iterators take ten times as long to make."""

from __future__ import annotations

from typing import Any

__all__ = ["inputs_of", "outputs_of", "unpacked"]


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
