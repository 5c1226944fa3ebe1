"""Find dynamic sizes of 0 and 1 at which the captured graph is wrong.

torch takes a dynamic size for 2 or more. So a slice is recorded with the length that it has then (see `small_slices`). A squeeze
keeps an axis ``n + 1`` long, which eager removes where ``n`` is 0. And ``torch.zeros(x[1:].shape)`` is recorded with ``n - 1``
rows, where a slice has 0 and not a negative number of them. These sizes become restrictions of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from onnxexp import ExportContext
from onnxexp.graph import Dim, Graph, Node, SymbolicSize, TensorType, Value
from onnxexp_aten.passes.input_sizes import InputSizes
from onnxexp_aten.passes.small_slices import restrict_slices

_OTHER = 3
"""The size of the other axes."""


class FindSmallSizes:
    """A pre pass: restrict sizes of 0 and 1 at which the program is wrong."""

    def __init__(self, context: ExportContext) -> None:
        self._context = context

    def __call__(self, graph: Graph) -> bool:
        sizes = InputSizes.of(graph, self._context)
        if sizes is not None:
            restrict_slices(graph, sizes)
            squeezed = (size for node in graph.walk() for size in _squeezed(node))
            _restrict(sizes, squeezed, [0], lambda size: size == 1)
            _restrict(sizes, _created(graph), [1, 0], lambda size: size < 0)
        return False


def _restrict(sizes: InputSizes, found: Iterable[Dim], small: Sequence[int], is_wrong: Callable[[int], bool]) -> None:
    """Refuse each small size of one axis at which one of the sizes found is wrong."""
    for size in dict.fromkeys(found):
        names = sizes.names(size)
        for name in names:
            for number in small:
                point = {**dict.fromkeys(names, _OTHER), name: number}
                value = sizes.value(size, point)
                if value is not None and is_wrong(value) and sizes.allows(point):
                    sizes.restrict([name], number)


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


def _created(graph: Graph) -> Iterator[SymbolicSize]:
    """Yield the symbolic sizes of tensors that are computed without another tensor."""
    for node in graph.walk():
        if not any(isinstance(value.type, TensorType) for value in node.inputs()):
            types = (output.type for output in node.outputs)
            sizes = (size for type_ in types if isinstance(type_, TensorType) for size in type_.sizes or ())
            yield from (size for size in sizes if isinstance(size, SymbolicSize))
