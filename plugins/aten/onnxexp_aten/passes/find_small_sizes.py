"""Find dynamic sizes of 0 and 1 at which the captured graph is wrong.

torch takes a dynamic size for 2 or more, and simplifies the length of a slice with it: ``x[1:2]`` and ``x[-1:]`` are recorded as
1 long, where eager has no row at size 1 and at size 0. Later operators rely on the recorded length. A squeeze keeps an axis
``n + 1`` long, which eager removes where ``n`` is 0. And ``torch.zeros(x[1:].shape)`` is recorded with ``n - 1`` rows, where a
slice has 0 and not a negative number of them. These sizes become restrictions of the program.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from onnxexp import ExportContext, warn
from onnxexp.graph import Dim, Graph, Node, ScalarType, SymbolicSize, TensorType, Value
from onnxexp_aten.passes.input_sizes import InputSizes, Sizes

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


_SLICES = ("aten::slice.Tensor", "aten::slice_scatter")
_SPLITS = ("aten::tensor_split.indices", "aten::hsplit.array", "aten::vsplit.array", "aten::dsplit.array")
_OTHERS = (3, 4, 7, 12)
"""Sizes of the other axes, tried with a size of 0 or 1."""
_UNKNOWN = SymbolicSize("?")
_FIX = (
    "torch takes a dynamic size for 2 or more; at 1, this slice has another length. Write that line for any size, or limit the "
    "sizes in dynamic_shapes (Dim.DYNAMIC(min=2))."
)


@dataclasses.dataclass(frozen=True)
class _Slice:
    """A slice of an axis: its limits, and the sizes before and after it.

    `counted` is whether the length is a number of the program.
    """

    start: Any
    end: Any
    step: Any
    size: Any
    length: Any
    counted: bool = False


def restrict_slices(graph: Graph, sizes: InputSizes) -> None:
    """Restrict sizes of 0 and 1 at which a slice is not as recorded.

    Warns of sizes of 1 that the user asked for. A size of 0 is refused in a call, without a warning.
    """
    lines: list[str] = []
    for found, node in _slices(graph, sizes).items():
        for names, small in _wrong(found, sizes):
            text = sizes.restrict(names, small)
            if small:
                lines.append(f"{text} ({node.where})")
    if lines:
        warn(f"the exported model is right only where {'; '.join(lines)}. {_FIX}")


def _wrong(found: _Slice, sizes: InputSizes) -> Iterator[tuple[Sequence[str], int]]:
    """Yield the axes that must not all be 0 or 1 long."""
    names = sizes.names(*dataclasses.astuple(found))
    groups = [[name] for name in names] + ([names] if len(names) > 1 else [])
    for group in groups:
        for small in (1, 0):
            points = ({name: small if name in group else other for name in names} for other in _OTHERS)
            if any(_is_wrong(found, sizes, point, group) for point in points):
                yield group, small


def _is_wrong(found: _Slice, sizes: InputSizes, point: Sizes, group: Sequence[str]) -> bool:
    """Return whether a slice is wrong at a size, and right where the size is 2.

    A slice that is wrong at 2 as well is wrong for another reason than a small size.
    """
    if _is_right(sizes, found, point) or not _is_right(sizes, found, {**point, **dict.fromkeys(group, 2)}):
        return False
    return sizes.allows(point)


def _is_right(sizes: InputSizes, found: _Slice, point: Sizes) -> bool:
    """Return whether a slice has the recorded length, or a value is unknown."""
    size, length = sizes.value(found.size, point), sizes.value(found.length, point)
    limits = [None if limit is None else sizes.value(limit, point) for limit in (found.start, found.end, found.step)]
    known = [each for each in (size, length, *limits) if each is not None]
    missing = sum(each is None for each in (found.start, found.end))
    if len(known) + missing < 5:
        return True
    recorded = (length or 0) if found.counted else max(length or 0, 0)  # a tensor with a negative size has no elements
    return len(range(*slice(*limits).indices(max(size or 0, 0)))) == recorded


def _slices(graph: Graph, sizes: InputSizes) -> dict[_Slice, Node]:
    """Return the slices that depend on dynamic sizes, each with its first node.

    A slice of a dropped node counts if its length is in use: in ``x[1:].shape[0]`` nothing reads the slice.
    """
    found: dict[_Slice, Node] = {}
    values = (value for node in graph.walk() for value in node.outputs)
    numbers = {value.type.expr for value in values if isinstance(value.type, ScalarType)}
    for node, dropped in itertools.chain(zip(graph.walk(), itertools.repeat(False)), zip(graph.dropped, itertools.repeat(True))):
        for each in _of_node(node):
            counted = each.length in numbers
            if (counted or not dropped) and sizes.names(*dataclasses.astuple(each)):
                found.setdefault(dataclasses.replace(each, counted=counted), node)
    return found


def _of_node(node: Node) -> Iterator[_Slice]:
    if node.op in _SLICES:
        *_, dim, start, end, step = node.args
        cut = node.outputs[0] if node.op == _SLICES[0] else node.args[1]
        yield _Slice(_limit(start), _limit(end), _limit(step), _size(node.args[0], dim), _size(cut, dim))
    elif node.op == "aten::diff" and node.args[3:] == [None, None]:  # as long as the slice without the first rows
        whole, count, dim, *_ = node.args
        yield _Slice(_limit(count), None, 1, _size(whole, dim), _size(node.outputs[0], dim))
    elif node.op in _SPLITS:
        whole, bounds = node.args[0], [None, *map(_limit, node.args[1]), None]
        dim = node.args[2] if len(node.args) > 2 else _axis(node.op, whole)
        for part, start, end in zip(node.outputs, bounds, bounds[1:], strict=False):
            yield _Slice(start, end, 1, _size(whole, dim), _size(part, dim))


def _axis(op: str, x: Value) -> int:
    """Return the axis that hsplit, vsplit or dsplit splits."""
    sizes = x.type.sizes if isinstance(x.type, TensorType) else None
    return {"aten::vsplit.array": 0, "aten::dsplit.array": 2}.get(op, 0 if sizes is not None and len(sizes) == 1 else 1)


def _size(value: Value, dim: int) -> Dim:
    sizes = value.type.sizes if isinstance(value.type, TensorType) else None
    return _UNKNOWN if sizes is None else sizes[dim]


def _limit(limit: Any) -> Any:
    if not isinstance(limit, Value):
        return limit
    return (isinstance(limit.type, ScalarType) and limit.type.expr) or _UNKNOWN
