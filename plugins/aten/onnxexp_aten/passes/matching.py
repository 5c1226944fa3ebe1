"""Match nodes of the finished model."""

from __future__ import annotations

import onnx_ir as ir


def producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return a value's producer of these operators, with a non-constant first input."""
    node = None if value is None else value.producer()
    if node is None or node.domain or node.op_type not in operators:
        return None
    source = node.inputs[0]
    return None if source is None or source.const_value is not None else node


def source_of(node: ir.Node) -> ir.Value:
    """Return the first input of a node that has one."""
    value = node.inputs[0]
    assert value is not None
    return value


def only_used_by(value: ir.Value, operators: frozenset[str]) -> bool:
    """Return whether only such operators use a value.

    Rewriting those operators then makes the value dead.
    """
    return not value.is_graph_output() and all(not user.domain and user.op_type in operators for user, _ in value.uses())
