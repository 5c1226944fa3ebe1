"""Find axes that `squeeze` removes at a dynamic size of 0.

torch takes a dynamic size for 2 or more, so that an axis ``n + 1`` long stays. Eager removes it where ``n`` is 0: that size
becomes a restriction of the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnxexp import ExportContext
from onnxexp.graph import Graph, Node, SymbolicSize, TensorType, Value
from onnxexp_aten.passes.input_sizes import InputSizes

_OTHER = 3
"""The size of the other axes."""


class FindRemovedAxes:
    """A pre pass: restrict sizes of 0 at which `squeeze` removes another axis."""

    def __init__(self, context: ExportContext) -> None:
        self._context = context

    def __call__(self, graph: Graph) -> bool:
        sizes = InputSizes.of(graph, self._context)
        if sizes is None:
            return False
        for size in dict.fromkeys(size for node in graph.walk() for size in _squeezed(node)):
            names = sizes.names(size)
            for name in names:
                point = {**dict.fromkeys(names, _OTHER), name: 0}
                if sizes.value(size, point) == 1 and sizes.allows(point):
                    sizes.restrict([name], 0)
        return False


def _squeezed(node: Node) -> Iterator[SymbolicSize]:
    """Yield the symbolic sizes of axes that a squeeze would remove if they were 1."""
    if node.op.partition(".")[0] != "aten::squeeze":
        return
    x, *dims = node.args
    sizes = x.type.sizes if isinstance(x, Value) and isinstance(x.type, TensorType) else None
    if not sizes:
        return
    chosen = range(len(sizes)) if not dims else dims[0] if isinstance(dims[0], (list, tuple)) else dims
    yield from (size for size in (sizes[dim] for dim in chosen) if isinstance(size, SymbolicSize))
