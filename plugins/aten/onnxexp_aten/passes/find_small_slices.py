"""Find slices that have another length at a dynamic size of 0 or 1.

torch takes a dynamic size for 2 or more, and simplifies the length of a slice with it: ``x[1:2]`` and ``x[-1:]``
are recorded as 1 long, where eager has no row at size 1 and at size 0. Later operators rely on the recorded length, so such
sizes become restrictions of the program.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import sympy  # type: ignore[import-untyped]
import torch
from torch.export import Dim

from onnxexp import ExportContext, Graph, Node, ScalarType, TensorType, Value, warn
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["SPEC", "FindSmallSlices"]

SPEC = "aten.spec"
"""Key in `ExportContext.plugin_data`: the `DynamicSpec` of the export."""

_SLICES = ("aten::slice.Tensor", "aten::slice_scatter")
_OTHERS = (3, 4, 7, 12)
"""Sizes of the other axes, tried with a size of 0 or 1."""
_FUNCTIONS = {"max": sympy.Max, "min": sympy.Min}
_CURE = (
    "torch takes a dynamic size for 2 or more; at 1, this slice has another length. Write that line for any size, or limit the "
    "sizes in dynamic_shapes (Dim.DYNAMIC(min=2))."
)

_Sizes: TypeAlias = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class _Slice:
    """A slice of an axis: its limits, and the sizes before and after it."""

    start: Any
    end: Any
    step: Any
    size: Any
    length: Any


class FindSmallSlices:
    """A pre pass: restrict sizes of 0 and 1 at which a slice is not as recorded.

    Warns of sizes of 1 that the user asked for. A size of 0 is refused in a call, without a warning.
    """

    def __init__(self, context: ExportContext) -> None:
        self._context = context

    def __call__(self, graph: Graph) -> bool:
        spec: DynamicSpec | None = self._context.plugin_data.get(SPEC)
        if spec is None or len(spec.leaves) != len(graph.inputs):
            return False
        sizes = _InputSizes(graph, spec)
        lines: list[str] = []
        for found, node in _slices(graph, sizes).items():
            for names, small in self._wrong(found, sizes):
                text = " or ".join(f"{name} {'!= 1' if small else '>= 1'}" for name in names)
                self._context.restrictions[text] = functools.partial(_differ, [sizes.axes[name] for name in names], small)
                if small:
                    lines.append(f"{text} ({node.where})")
        if lines:
            warn(f"the exported model is right only where {'; '.join(lines)}. {_CURE}")
        return False

    def _wrong(self, found: _Slice, sizes: _InputSizes) -> Iterator[tuple[Sequence[str], int]]:
        """Yield the axes that must not all be 0 or 1 long."""
        names = sizes.names(found)
        groups = [[name] for name in names] + ([names] if len(names) > 1 else [])
        for group in groups:
            for small in (1, 0):
                points = ({name: small if name in group else other for name in names} for other in _OTHERS)
                if any(self._is_wrong(found, sizes, point, group) for point in points):
                    yield group, small

    def _is_wrong(self, found: _Slice, sizes: _InputSizes, point: _Sizes, group: Sequence[str]) -> bool:
        """Whether a slice is wrong at a size, and right where that is 2.

        A slice that is wrong at 2 as well has another condition, which is no matter of small sizes.
        """
        if not all(sizes.asked(name, size) for name, size in point.items()):
            return False
        if sizes.is_right(found, point) or not sizes.is_right(found, {**point, **dict.fromkeys(group, 2)}):
            return False
        leaves = sizes.leaves(point)
        return all(allows(leaves) for allows in self._context.restrictions.values())


class _InputSizes:
    """The dynamic sizes of the inputs.

    Attributes:
        axes: The first (index, axis) of each name.
    """

    def __init__(self, graph: Graph, spec: DynamicSpec) -> None:
        self._spec = spec
        self._types = [value.type for value in graph.inputs]
        self.axes: dict[str, tuple[int, int]] = {}
        for index, type_ in enumerate(self._types):
            for axis, size in enumerate(type_.sizes or () if isinstance(type_, TensorType) else ()):
                if isinstance(size, str):
                    self.axes.setdefault(size, (index, axis))
        names = "|".join(re.escape(name) for name in sorted(self.axes, key=len, reverse=True))
        self._names = re.compile(rf"(?<!\w)(?:{names})(?!\w)")

    def names(self, found: _Slice) -> list[str]:
        """Return the names of the axes on which a slice depends."""
        texts = (str(each) for each in dataclasses.astuple(found))
        return list(dict.fromkeys(name for text in texts for name in self._names.findall(text))) if self.axes else []

    def asked(self, name: str, size: int) -> bool:
        """Whether a size is within the user's range."""
        index, axis = self.axes[name]
        request = self._spec.axes[index].get(axis)  # None in a given program
        dim = Dim.AUTO if request is None else request.dim
        return (dim.min or 0) <= size and (dim.max is None or size <= dim.max)

    def is_right(self, found: _Slice, point: _Sizes) -> bool:
        """Whether a slice has the recorded length; also where one is unknown."""
        size, length = self._value(found.size, point), self._value(found.length, point)
        limits = [None if limit is None else self._value(limit, point) for limit in (found.start, found.end, found.step)]
        known = [each for each in (size, length, *limits) if each is not None]
        missing = sum(each is None for each in (found.start, found.end))
        if len(known) + missing < 5:
            return True
        return len(range(*slice(*limits).indices(max(size or 0, 0)))) == max(length or 0, 0)

    def leaves(self, point: _Sizes) -> list[Any]:
        """Return the example's leaves with these sizes."""
        leaves: list[Any] = [leaf.value for leaf in self._spec.leaves]
        for index, type_ in enumerate(self._types):
            if isinstance(leaves[index], torch.Tensor) and isinstance(type_, TensorType) and type_.sizes is not None:
                sizes = (self._value(size, point) for size in type_.sizes)
                shape = [given if size is None else size for size, given in zip(sizes, leaves[index].shape, strict=True)]
                leaves[index] = np.broadcast_to(0, [max(size, 0) for size in shape])
        return leaves

    def _value(self, size: Any, point: _Sizes) -> int | None:
        """Evaluate a size; None where it depends on anything else."""
        if not isinstance(size, str):
            return size if isinstance(size, int) else None
        return _number(self._names.sub(lambda name: f"({point.get(name[0], name[0])})", size))


@functools.lru_cache
def _number(text: str) -> int | None:
    try:
        value = sympy.sympify(text, locals=_FUNCTIONS)
    except (ArithmeticError, AttributeError, SyntaxError, TypeError, ValueError):  # a division by 0, another function
        return None
    return int(value) if isinstance(value, sympy.Integer) else None


def _slices(graph: Graph, sizes: _InputSizes) -> dict[_Slice, Node]:
    """Return the slices that depend on dynamic sizes, each with its first node."""
    found: dict[_Slice, Node] = {}
    for node in graph.walk():
        if node.op in _SLICES:
            *_, dim, start, end, step = node.args
            cut = node.outputs[0] if node.op == _SLICES[0] else node.args[1]
            size, length = (_size(value, dim) for value in (node.args[0], cut))
            each = _Slice(_limit(start), _limit(end), _limit(step), size, length)
            if sizes.names(each):
                found.setdefault(each, node)
    return found


def _size(value: Value, dim: int) -> int | str:
    sizes = value.type.sizes if isinstance(value.type, TensorType) else None
    return "unknown" if sizes is None else sizes[dim]


def _limit(limit: Any) -> Any:
    if not isinstance(limit, Value):
        return limit
    return (isinstance(limit.type, ScalarType) and limit.type.expr) or "unknown"


def _differ(axes: Sequence[tuple[int, int]], small: int, leaves: Sequence[Any]) -> bool:
    """Whether one of the axes has another size than `small`."""
    return any(np.shape(leaves[index])[axis : axis + 1] != (small,) for index, axis in axes)
