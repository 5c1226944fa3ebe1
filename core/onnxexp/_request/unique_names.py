"""Unique names, such as `base`, or `base_1`, `base_2`, … where it is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx_ir as ir


class UniqueNames:
    """Names of one kind, where counters make many names from one base cheap."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = dict.fromkeys(taken, 0)

    @classmethod
    def of(cls, graph: ir.Graph) -> UniqueNames:
        """Reserve the names that a graph and the bodies of its nodes have."""
        names = cls()
        names.reserve({*graph.initializers, *(value.name or "" for value in graph.inputs)})
        for node in ir.traversal.RecursiveGraphIterator(graph):
            names.reserve([node.name or "", *(value.name or "" for value in node.outputs)])
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.GRAPH:
                    names.reserve(value.name or "" for value in attribute.as_graph().inputs)
        return names

    def unique(self, base: str) -> str:
        """Return and take `base`, or `base_1`, `base_2`, … where it is taken already."""
        taken = self._taken
        if base not in taken:
            taken[base] = 0
            return base
        name, count = base, taken[base]
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken[base], taken[name] = count, 0
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve names, so that `unique` never returns them."""
        for name in names:
            self._taken.setdefault(name, 0)


def unique_names(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """Make names unique by numbers for those that occur twice or are in `taken`."""
    result: list[str] = []
    used = set(taken)
    for name in names:
        result.append(UniqueNames(used.union(names)).unique(name) if name in used else name)
        used.add(result[-1])
    return result
