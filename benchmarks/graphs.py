"""Count the nodes of an ONNX file, in the same way for every tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx


def operators(path: str | Path) -> Counter[str]:
    """Count the nodes by operator, in subgraphs and model-local functions too."""
    model = onnx.load(str(path), load_external_data=False)
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    return Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for body in bodies for node in _nodes(body))


def _nodes(body: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in body:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def file_bytes(path: str | Path) -> int:
    """Return the size of a file and its external data.

    External data has the file's name as prefix.
    """
    path = Path(path)
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))
