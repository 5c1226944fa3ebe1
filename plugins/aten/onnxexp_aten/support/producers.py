"""Producers of tensors, to infer sizes and ranges. Passes match patterns of nodes."""

from __future__ import annotations

from onnxexp import Builder, Producer, Tensor


def made_by(op: Builder, x: Tensor, *kinds: str) -> tuple[Producer, Tensor] | None:
    """Return the producer of `x`, one of these operators, and its first input.

    Returns None where the first input is constant, or the producer is another operator.
    """
    node = op.producer(x)
    source = node.inputs[0] if node is not None and node.operator in kinds else None
    return None if node is None or source is None or source.const is not None else (node, source)


def given_ints(node: Producer, index: int, name: str) -> list[int] | None:
    """Return constant integers of an input or attribute of a node, else None."""
    if name in node.attributes:
        return list(node.attributes[name])
    given = node.inputs[index] if index < len(node.inputs) else None
    return None if given is None or given.const is None else [int(element) for element in given.const.reshape(-1).tolist()]
