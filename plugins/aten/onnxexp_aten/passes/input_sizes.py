"""The dynamic sizes of a graph's inputs, for passes that check expressions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.export import Dim

from onnxexp import ExportContext
from onnxexp.frontends import DynamicSpec
from onnxexp.graph import Graph, SymbolicSize, TensorType

SPEC = "aten.spec"
"""Key in `ExportContext.plugin_data`: the `DynamicSpec` of the export."""

Sizes: TypeAlias = Mapping[str, int]


class InputSizes:
    """The dynamic sizes of the inputs, and the restrictions on them.

    Attributes:
        axes: The first (index, axis) of each name.
    """

    def __init__(self, graph: Graph, spec: DynamicSpec, context: ExportContext) -> None:
        self._spec = spec
        self._restrictions = context.restrictions
        self._types = [value.type for value in graph.inputs]
        self.axes: dict[str, tuple[int, int]] = {}
        for index, type_ in enumerate(self._types):
            for axis, size in enumerate(type_.sizes or () if isinstance(type_, TensorType) else ()):
                if isinstance(size, SymbolicSize):
                    self.axes.setdefault(size.text, (index, axis))

    @classmethod
    def of(cls, graph: Graph, context: ExportContext) -> InputSizes | None:
        """Read a captured graph's sizes; return None if its inputs are not the call's."""
        spec: DynamicSpec | None = context.plugin_data.get(SPEC)
        return None if spec is None or len(spec.leaves) != len(graph.inputs) else cls(graph, spec, context)

    def names(self, *sizes: Any) -> list[str]:
        """Return the names of the axes on which sizes depend."""
        found = (name for size in sizes if isinstance(size, SymbolicSize) for name in size.parts(self.axes))
        return list(dict.fromkeys(found))

    def allows(self, point: Sizes) -> bool:
        """Return whether sizes are within the user's ranges and the restrictions so far."""
        if not all(self._asked(name, size) for name, size in point.items()):
            return False
        leaves = self._leaves(point)
        return all(allows(leaves) for allows in self._restrictions.values())

    def restrict(self, names: Sequence[str], small: int) -> str:
        """Refuse calls in which all these axes are `small`, 0 or 1; return the condition."""
        text = " or ".join(f"{name} {'!= 1' if small else '>= 1'}" for name in names)
        self._restrictions[text] = functools.partial(_differ, [self.axes[name] for name in names], small)
        return text

    def _asked(self, name: str, size: int) -> bool:
        index, axis = self.axes[name]
        request = self._spec.axes[index].get(axis)  # None in a given program
        dim = Dim.AUTO if request is None else request.dim
        return (dim.min or 0) <= size and (dim.max is None or size <= dim.max)

    def _leaves(self, point: Sizes) -> list[Any]:
        """Return the example's leaves with these sizes."""
        leaves: list[Any] = [leaf.value for leaf in self._spec.leaves]
        for index, type_ in enumerate(self._types):
            if isinstance(leaves[index], torch.Tensor) and isinstance(type_, TensorType) and type_.sizes is not None:
                sizes = (self.value(size, point) for size in type_.sizes)
                shape = [given if size is None else size for size, given in zip(sizes, leaves[index].shape, strict=True)]
                leaves[index] = np.broadcast_to(0, [max(size, 0) for size in shape])
        return leaves

    def value(self, size: Any, point: Sizes) -> int | None:
        """Evaluate a size; return None where it depends on anything else."""
        if isinstance(size, SymbolicSize):
            return size.at(point)
        return size if isinstance(size, int) else None


def _differ(axes: Sequence[tuple[int, int]], small: int, leaves: Sequence[Any]) -> bool:
    """Return whether one of the axes has another size than `small`."""
    return any(np.shape(leaves[index])[axis : axis + 1] != (small,) for index, axis in axes)
