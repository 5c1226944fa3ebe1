"""Find slices that have another length at a dynamic size of 0 or 1.

torch takes a dynamic size for 2 or more, and simplifies the length of a slice with it: ``x[1:2]`` and ``x[-1:]`` are recorded as
1 long, where eager has no row at size 1 and at size 0. Later operators rely on the recorded length, so such sizes become
restrictions of the program.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from onnxexp import warn
from onnxexp.graph import Dim, Graph, Node, ScalarType, SymbolicSize, TensorType, Value
from onnxexp_aten.passes.input_sizes import InputSizes, Sizes

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
