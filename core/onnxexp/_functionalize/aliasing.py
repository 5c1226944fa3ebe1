"""Find the values of a graph that may share memory.

Values that may share memory form a class; only classes that some node writes to concern the rewriting, the rest of the graph
stays untouched. Within a class, values that are certainly one and the same tensor object have one `origin`: the result of
``x.add_(1)`` is `x`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeGuard

import torch

from onnxexp._functionalize.contiguity import Contiguity
from onnxexp._functionalize.mutation import MutationInfo, is_tensor, results
from onnxexp._neutral_graph import Graph, Node, Value, values_in


class Aliases:
    """The classes of values that may share memory.

    Attributes:
        contiguity: The values that are contiguous.
        overlapping: Pairs of parameters that share a part of their memory but are not the same.
    """

    def __init__(self, graph: Graph) -> None:
        self._parent: dict[Value, Value] = {}
        self._same: dict[Value, Value] = {}
        self._written: list[Value] = []
        self.contiguity = Contiguity(graph)
        self.overlapping: list[tuple[Value, Value]] = []
        self._scan(graph)
        self._join_params(graph.params)
        self._classes = {self.find(value) for value in self._written}

    def find(self, value: Value) -> Value:
        """Return the representative of a value's class."""
        return _last(self._parent, value)

    def origin(self, value: Value) -> Value:
        """Return the first value that is the same tensor object."""
        return _last(self._same, value)

    def written(self, value: Any) -> TypeGuard[Value]:
        """Return whether an argument is a tensor whose memory may be written somewhere."""
        return is_tensor(value) and self.find(value) in self._classes

    def outer(self, node: Node) -> Iterator[Value]:
        """Yield the written tensors from outside that a node's blocks use, under any name."""
        inner = list(Graph(nodes=[node]).walk())
        made = {value for each in inner for value in (*each.outputs, *chain(*(block.inputs for block in each.blocks)))}
        for value in chain.from_iterable(map(values_used, node.blocks)):
            if self.written(value) and (origin := self.origin(value)) not in made:
                yield origin

    def written_in(self, node: Node) -> set[Value]:
        """Find the classes that a node's blocks write to."""
        inner = chain.from_iterable(block.walk() for block in node.blocks)
        return {
            self.find(value)
            for step in inner
            for index in MutationInfo.of(step.op).written
            for value in values_in(step.args[index])
        }

    def _join(self, one: Any, other: Any) -> None:
        if is_tensor(one) and is_tensor(other) and self.find(one) is not self.find(other):
            self._parent[self.find(one)] = self.find(other)

    def _identify(self, value: Any, earlier: Any) -> None:
        self._join(value, earlier)
        if is_tensor(value) and is_tensor(earlier) and self.origin(earlier) is not self.origin(value):
            self._same[value] = earlier

    def _scan(self, graph: Graph) -> None:
        for node in graph.nodes:
            known = MutationInfo.of(node.op)
            for index in known.written:
                self._written.extend(values_in(node.args[index]))
            if node.blocks:
                scans = {"prim::If": self._scan_if, "prim::Loop": self._scan_loop}
                scans.get(node.op, self._scan_other)(node)
            elif known.opaque:
                for output in node.outputs:
                    for value in node.inputs():
                        self._join(output, value)
            elif known.written or known.viewed is not None:
                for output, written in results(node):
                    if written is not None:
                        self._identify(output, node.args[written])
                    elif known.viewed is not None:
                        for value in values_in(node.args[known.viewed]):
                            self._join(output, value)
            self.contiguity.visit(node, known)

    def _scan_if(self, node: Node) -> None:
        for block in node.blocks:
            self._scan(block)
        for output, *branches in zip(node.outputs, *(block.outputs for block in node.blocks), strict=True):
            for value in branches:
                self._join(output, value)
            origins = {self.origin(value) for value in branches if isinstance(value, Value)}
            if len(origins) == 1 and all(isinstance(value, Value) for value in branches):
                self._identify(output, origins.pop())

    def _scan_loop(self, node: Node) -> None:
        (block,) = node.blocks
        before, inside = node.args[2:], block.inputs[1:]
        for value, start in zip(inside, before, strict=True):
            self._join(value, start)
        self._scan(block)
        for output, stacked in zip(node.outputs[len(inside) :], block.outputs[1 + len(inside) :], strict=True):
            self._join(output, stacked)
        for output, value, start, after in zip(node.outputs, inside, before, block.outputs[1:]):  # noqa: B905 - without what is stacked
            self._join(after, value)
            self._join(output, value)
            if isinstance(after, Value) and self.origin(after) is value:  # every round hands on what it was given
                self._identify(value, start)
                self._identify(output, start)

    def _scan_other(self, node: Node) -> None:
        """Join all inputs, outputs and values of the blocks, since all may be aliases."""
        reached = [*node.inputs(), *node.outputs]
        for block in node.blocks:
            self._scan(block)
            reached += [*block.inputs, *values_in(block.outputs)]
        for value in reached[1:]:
            self._join(value, reached[0])

    def _join_params(self, params: dict[Value, torch.Tensor]) -> None:
        """Identify parameters with the same memory, and record those that overlap in part."""
        first: dict[int, Value] = {}
        for value, tensor in params.items():
            other = first.setdefault(tensor.untyped_storage()._cdata, value)
            if other is value:
                continue
            if _place(tensor) == _place(params[other]):
                self._identify(value, other)
            else:
                self._join(value, other)
                self.overlapping.append((value, other))


def _last(links: dict[Value, Value], value: Value) -> Value:
    """Follow the links from a value to the last one, and shorten the path."""
    while (up := links.get(value)) is not None:
        links[value] = links.get(up, up)
        value = up
    return value


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride()


def values_used(graph: Graph) -> Iterator[Value]:
    """Yield every argument and output of a graph and its nested graphs."""
    yield from values_in(graph.outputs)
    for node in graph.walk():
        yield from values_in([node.args, [block.outputs for block in node.blocks]])
