"""The nodes that make a tensor."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp import Builder, Tensor

__all__ = ["given_ints", "made_by", "unused"]


def made_by(op: Builder, x: Tensor, *kinds: str) -> tuple[ir.Node, Tensor] | None:
    """The node that makes `x` and that node's first input, where it is one of these ONNX operators."""
    if x.const is not None:
        return None
    node = x.value.producer()
    if node is None or node.domain or node.op_type not in kinds or node.inputs[0] is None:
        return None
    source = op.state.tensors.get(node.inputs[0])
    return None if source is None else (node, source)


def given_ints(node: ir.Node, index: int, name: str) -> list[int] | None:
    """A node's constant integers, be they its input at `index` or its attribute `name`; None where not constant."""
    if name in node.attributes:
        return list(node.attributes[name].as_ints())
    value = node.inputs[index] if index < len(node.inputs) else None
    known = None if value is None else value.const_value
    return None if known is None else [int(element) for element in known.numpy().reshape(-1)]


def unused(x: Tensor) -> bool:
    """Has nothing but views been made of `x` yet? Then what does the same at another place may do instead of it."""
    return x.const is None and _unused(x.value)


def _unused(value: ir.Value) -> bool:
    return all(user.op_type in _VIEWS and all(map(_unused, user.outputs)) for user, _ in value.uses())


_VIEWS = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")
