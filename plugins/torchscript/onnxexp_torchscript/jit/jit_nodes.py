"""The parts of a TorchScript graph, without the ends of torch's iterators.

Such an end is an exception of C++, which takes 10 µs; a constant is converted in less.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.graph import TensorType

ATOMS = frozenset([bool, int, float, str, type(None)])
"""The types of constants that are used as they are: of two thirds of a trace's nodes."""
_WITHOUT_BLOCKS = ("aten::", "prim::Constant", "prim::ListConstruct", "prim::ListUnpack", "prim::NumToTensor", "prim::GetAttr")
_TRACED_MODULE = "prim::TracedModuleForward"
"""The kind of a node with the calls of a module in its only block, while a model is traced."""


def inputs(node: Any) -> list[Any]:
    """List the input values of a node."""
    return [node.inputsAt(index) for index in range(node.inputsSize())]


def outputs(node: Any) -> list[Any]:
    """List the output values of a node."""
    return [node.outputsAt(index) for index in range(node.outputsSize())]


def blocks(node: Any) -> list[Any]:
    """List the blocks of a node."""
    kind = node.kind()
    if kind.startswith(_WITHOUT_BLOCKS):
        return []
    return [next(node.blocks())] if kind == _TRACED_MODULE else list(node.blocks())


def nodes(block: Any) -> list[Any]:
    """List the nodes of a block in order."""
    found, node, first = [], block.returnNode().prev(), block.paramNode()
    while node is not first:  # pybind11 has one object for each node
        found.append(node)
        node = node.prev()
    found.reverse()
    return found


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
