"""Producers of tensors, for matching small patterns."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp import Builder, Tensor

__all__ = ["given_ints", "made_by", "unused"]


def made_by(op: Builder, x: Tensor, *kinds: str) -> tuple[ir.Node, Tensor] | None:
    """Producer of `x` and its first input, if it is one of these operators."""
    if x.const is not None:
        return None
    node = x.value.producer()
    if node is None or node.domain or node.op_type not in kinds or node.inputs[0] is None:
        return None
    source = op.state.tensors.get(node.inputs[0])
    return None if source is None else (node, source)


def given_ints(node: ir.Node, index: int, name: str) -> list[int] | None:
    """Constant integers of an input or attribute of a node, else None."""
    if name in node.attributes:
        return list(node.attributes[name].as_ints())
    value = node.inputs[index] if index < len(node.inputs) else None
    known = None if value is None else value.const_value
    return None if known is None else [int(element) for element in known.numpy().reshape(-1)]


def unused(x: Tensor) -> bool:
    """Whether `x` has no users but views, so that a moved view can replace it."""
    return x.const is None and _unused(x.value)


def _unused(value: ir.Value) -> bool:
    return all(user.op_type in _VIEWS and all(map(_unused, user.outputs)) for user, _ in value.uses())


_VIEWS = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")
