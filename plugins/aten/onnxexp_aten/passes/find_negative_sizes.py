"""Find new tensors that have a negative size at a dynamic size of 0 or 1.

torch takes a dynamic size for 2 or more, so that ``x[1:]`` is recorded as ``n - 1`` long. A slice itself has 0 rows in ONNX where
that is negative; a tensor created with its length, as ``torch.zeros(x[1:].shape)``, has no such limit.
"""

from __future__ import annotations

from onnxexp import ExportContext
from onnxexp.graph import Graph, SymbolicSize, TensorType
from onnxexp_aten.passes.input_sizes import InputSizes

_OTHER = 3
"""The size of the other axes."""


class FindNegativeSizes:
    """A pre pass: restrict sizes of 0 and 1 at which a new tensor has a negative size."""

    def __init__(self, context: ExportContext) -> None:
        self._context = context

    def __call__(self, graph: Graph) -> bool:
        sizes = InputSizes.of(graph, self._context)
        if sizes is None:
            return False
        for size in _created(graph):
            names = sizes.names(size)
            for name in names:
                for small in (1, 0):
                    point = {**dict.fromkeys(names, _OTHER), name: small}
                    if (sizes.value(size, point) or 0) < 0 and sizes.allows(point):
                        sizes.restrict([name], small)
        return False


def _created(graph: Graph) -> list[SymbolicSize]:
    """List the symbolic sizes of tensors that are computed without another tensor."""
    made = (
        output.type
        for node in graph.walk()
        if not any(isinstance(value.type, TensorType) for value in node.inputs())
        for output in node.outputs
    )
    sizes = (size for type_ in made if isinstance(type_, TensorType) for size in type_.sizes or ())
    return list(dict.fromkeys(size for size in sizes if isinstance(size, SymbolicSize)))
