"""Inputs, outputs and blocks of a TorchScript node, by index.

The end of one of torch's iterators is an exception of C++, which takes 10 µs; a constant is converted in less.
"""

from __future__ import annotations

from typing import Any

_WITHOUT_BLOCKS = ("aten::", "prim::Constant", "prim::ListConstruct", "prim::ListUnpack", "prim::NumToTensor", "prim::GetAttr")


def inputs(node: Any) -> list[Any]:
    """List the input values of a node."""
    return [node.inputsAt(index) for index in range(node.inputsSize())]


def outputs(node: Any) -> list[Any]:
    """List the output values of a node."""
    return [node.outputsAt(index) for index in range(node.outputsSize())]


def blocks(node: Any) -> list[Any]:
    """List the blocks of a node."""
    return [] if node.kind().startswith(_WITHOUT_BLOCKS) else list(node.blocks())
