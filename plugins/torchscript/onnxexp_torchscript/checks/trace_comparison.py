"""The differences of two traces of one model, in constants and in operators."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import torch

from onnxexp_torchscript.jit.jit_nodes import blocks, inputs, outputs

_CONSTANT, _LIST, _UNPACK = "prim::Constant", "prim::ListConstruct", "prim::ListUnpack"
_ROUNDING = 2.5e-7
"""Two steps of float32: a kernel rounds the same row in another way where a batch is larger."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference of two traces.

    Attributes:
        index: The place in the order of the nodes.
        node: The node, of the longer graph where the structure differs.
        text: A description; "there" are the sizes of the second trace.
        structural: The graphs are not alike from this node on.
        of_lengths: A list or the result has another length.
    """

    index: int
    node: Any
    text: str
    structural: bool = False
    of_lengths: bool = False


def differences(first: Any, second: Any) -> list[Difference]:
    """Compare two graphs up to their first difference of structure, without types."""
    if _same_text(first, second):
        return []
    first, second = first.copy(), second.copy()
    torch._C._jit_pass_dce(first)
    torch._C._jit_pass_dce(second)
    return list(_Comparison().blocks(first, second))


def _same_text(first: Any, second: Any) -> bool:
    """Return whether two graphs have equal constants and, without types, equal texts.

    For a GRUCell of four steps, this takes 5 % of the time of a trace, and a walk over the nodes in Python takes 300 %.
    """
    graphs = [first.copy(), second.copy()]
    texts = []
    for graph in graphs:
        torch._C._jit_pass_erase_shape_information(graph)
        texts.append(graph.str(False))
    if texts[0] != texts[1]:
        return False
    constants = [
        [node for node in graph.findAllNodes(_CONSTANT) if node.output().type().kind() == "TensorType"] for graph in graphs
    ]
    return all(_equal(_value(one), _value(other)) for one, other in zip(*constants, strict=True))


class _Comparison:
    """A walk through two graphs."""

    def __init__(self) -> None:
        self._same: dict[int, int] = {}
        self._index = 0

    def blocks(self, first: Any, second: Any) -> Iterator[Difference]:
        """Compare two graphs, or two blocks."""
        self._match(first.inputs(), second.inputs())
        own, others = list(first.nodes()), list(second.nodes())
        for place, (one, other) in enumerate(zip(own, others, strict=False)):
            self._index += 1
            if not self._alike(one, other):
                if one.kind() != other.kind() or one.kind() == _CONSTANT:
                    one, other = _call(own[place:]), _call(others[place:])
                longer = other if len(others) > len(own) else one
                lengths = one.kind() == other.kind() and one.inputsSize() != other.inputsSize()
                yield Difference(self._index, longer, _other_operator(one, other), structural=True, of_lengths=lengths)
                return
            if one.kind() == _CONSTANT:
                yield from self._constants(one, other)
            for inner in zip(blocks(one), blocks(other), strict=True):
                for difference in self.blocks(*inner):
                    yield difference
                    if difference.structural:
                        return
            self._match(outputs(one), outputs(other))
        self._index += 1
        if len(own) != len(others):
            longer = max(own, others, key=len)
            counts = [sum(node.kind() not in (_CONSTANT, _LIST) for node in nodes) for nodes in (own, others)]
            text = f"the model runs {counts[0]} operators, and {counts[1]} there"
            yield Difference(self._index, longer[min(len(own), len(others))], text, structural=True)
        elif not self._known(first.outputs(), second.outputs()):
            yield Difference(self._index, None, "the model returns other values", structural=True)

    def _match(self, own: Any, others: Any) -> None:
        self._same |= {other.unique(): one.unique() for one, other in zip(own, others, strict=False)}

    def _known(self, own: Any, others: Any) -> bool:
        return [value.unique() for value in own] == [self._same.get(value.unique(), -1) for value in others]

    def _alike(self, one: Any, other: Any) -> bool:
        """Return whether two nodes have one operator and the same arguments.

        An unpacked list may have another length.
        """
        if one.kind() != other.kind() or not self._known(inputs(one), inputs(other)) or _texts(one) != _texts(other):
            return False
        if one.kind() == _CONSTANT and one.output().type().kind() != other.output().type().kind():
            return False
        if len(blocks(one)) != len(blocks(other)):
            return False
        return bool(one.outputsSize() == other.outputsSize() or one.kind() == _UNPACK)

    def _constants(self, one: Any, other: Any) -> Iterator[Difference]:
        before, after = _value(one), _value(other)
        if not _equal(before, after):
            yield Difference(self._index, one, f"{_shown(before)} is {_shown(after)} there")


def _value(node: Any) -> Any:
    return node.output().toIValue()


def _texts(node: Any) -> list[Any]:
    """List the texts and numbers among a node's attributes and Python arguments."""
    if node.kind() == _CONSTANT:
        return []
    read = {"s": node.s, "i": node.i, "f": node.f, "is": node.is_, "fs": node.fs, "ss": node.ss}
    found: list[Any] = [(name, read[node.kindOf(name)](name)) for name in node.attributeNames() if node.kindOf(name) in read]
    if node.kind() == "prim::PythonOp":
        found += [arg for arg in node.scalar_args() if isinstance(arg, (bool, int, float, str, type(None)))]
    return found


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return one.data_ptr() == other.data_ptr() or bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and math.isclose(one, other, rel_tol=_ROUNDING):
        return True
    return bool(one == other or (one != one and other != other))


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() == 1:
        return repr(value.item())
    return f"a tensor of shape {tuple(value.shape)}"


def _call(nodes: list[Any]) -> Any:
    """Return the first node that does more than prepare the arguments of another."""
    return next((node for node in nodes if node.kind() not in (_CONSTANT, _LIST)), nodes[0])


def _other_operator(one: Any, other: Any) -> str:
    if one.kind() != other.kind():
        return f"the model runs {one.kind()}, and {other.kind()} there"
    counts = one.inputsSize(), other.inputsSize()
    if counts[0] != counts[1]:
        return f"the model makes a list of {counts[0]} values, and of {counts[1]} there"
    return f"the model calls {one.kind()} with other values there"
