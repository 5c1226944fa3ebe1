"""Write ``fill_diagonal_`` as a write through the view of the diagonal."""

from __future__ import annotations

from collections.abc import Iterator

from onnxexp._functionalize.places import refuse
from onnxexp._neutral_graph import Graph, Node, TensorType, Value
from onnxexp._symbolic_size import SymbolicSize

_OP = "aten::fill_diagonal_"


def fill_diagonals(graph: Graph) -> None:
    """Replace each ``fill_diagonal_`` by ``diagonal`` and ``fill_``, in place.

    Raises CaptureError where the rank is unknown, and for ``wrap=True``.
    """
    for block in (graph, *(block for node in graph.walk() for block in node.blocks)):
        if any(node.op == _OP for node in block.nodes):
            block.nodes[:] = [made for node in block.nodes for made in (_through_view(node) if node.op == _OP else [node])]


def _through_view(node: Node) -> Iterator[Node]:
    """Yield the views of the diagonal, the write, and an alias of the tensor."""
    tensor, number, wrap = node.args
    type_ = tensor.type
    if type_.sizes is None or wrap:
        fix = "write through x.flatten()[:: x.shape[-1] + 1], or torch.where with torch.eye"
        refuse(f"{_OP} with wrap=True, or of a tensor of unknown rank, has no counterpart", node.where, fix)
    place, sizes = tensor, list(type_.sizes)
    while len(sizes) > 1:
        sizes = [*sizes[1:-1], SymbolicSize.smaller(sizes[0], sizes[-1])]
        view = Value(f"{tensor.name}_diagonal", TensorType(type_.dtype, tuple(sizes)))
        yield Node("aten::diagonal", [place, 0, 0, -1], [view], where=node.where)
        place = view
    written = Value(f"{tensor.name}_filled", place.type)
    yield Node("aten::fill_.Scalar", [place, number], [written], where=node.where)
    yield Node("aten::alias", [tensor], node.outputs, where=node.where)
