"""The neutral graph: torch operators, independent of the frontend.

Data and printing only. A frontend builds the graph, pre passes rewrite it, and lowering reads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxexp._source_location import SourceLocation
from onnxexp._symbolic_size import SymbolicSize

Dim: TypeAlias = int | SymbolicSize
"""A size: a number, or an expression of the names of axes."""


def to_dim(size: Dim | str) -> Dim:
    """Return a size, for a text its expression."""
    return SymbolicSize(size) if isinstance(size, str) else size


def ir_shape(sizes: Iterable[Dim]) -> ir.Shape:
    """Return sizes as onnx-ir's shape, in which unknown ones have no name."""
    return ir.Shape(size if isinstance(size, int) else None if size.is_unknown else size.text for size in sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class TensorType:
    """The dtype (None if unknown) and sizes (None for unknown rank) of a tensor.

    A text among the sizes becomes a `SymbolicSize`.
    """

    dtype: torch.dtype | None
    sizes: tuple[Dim, ...] | None

    def __post_init__(self) -> None:
        if self.sizes is not None and str in map(type, self.sizes):
            object.__setattr__(self, "sizes", tuple(map(to_dim, self.sizes)))

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.") if self.dtype is not None else "?"
        return f"{dtype}[{', '.join(map(str, self.sizes)) if self.sizes is not None else '...'}]"


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarType:
    """The type of a Python bool, int or float that is known only at run time.

    `expr` is the expression of sizes that it is, if any.
    """

    kind: type[bool] | type[int] | type[float]
    expr: SymbolicSize | None = None

    def __str__(self) -> str:
        return self.kind.__name__ + (f"({self.expr})" if self.expr else "")


Type: TypeAlias = TensorType | ScalarType
"""The type of a value."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Value:
    """A value of the graph: a readable name, and a type.

    Values are compared by identity.
    """

    name: str
    type: Type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Node:
    """A call of one operator.

    Attributes:
        op: The full name with its overload, ``aten::add.Tensor``; ``prim::If``, ``prim::Loop``, ``prim::Scan`` have `blocks`.
        args: Every argument of the op's torch schema, in order, with defaults filled in. Each is a `Value`, a Python
            constant, or a list that may mix both.
        outputs: One `Value` for each tensor or scalar that the op returns, and for each element of a returned list.
        blocks: Nested graphs. They may use values of the enclosing graphs. Outputs of a loop's block after the condition and the
            carried values are scan outputs: they are stacked along a new first axis, one entry per iteration.
        where: The location in the user's program.
    """

    op: str
    args: list[Any]
    outputs: list[Value]
    blocks: list[Graph] = dataclasses.field(default_factory=list)
    where: SourceLocation = dataclasses.field(default_factory=SourceLocation)

    def inputs(self) -> list[Value]:
        """Return every value among the arguments, including those inside lists."""
        return values_in(self.args)

    def replace_inputs(self, replacement: Callable[[Value], Any]) -> None:
        """Replace each value among the arguments by `replacement(value)`.

        The blocks stay unchanged.
        """
        self.args = replace_values(self.args, replacement)

    def __repr__(self) -> str:
        outputs = ", ".join(map(repr, self.outputs))
        call = f"{self.op}({', '.join(map(_show, self.args))})"
        return f"{outputs} = {call}" if outputs else call


@dataclasses.dataclass(slots=True)
class Graph:
    """Inputs, nodes in order, and outputs.

    Attributes:
        inputs: The values fed at run time, in order.
        outputs: The results: values or Python constants (None, numbers, bool, str).
        nodes: The nodes in topological order.
        params: Tensors known at export (parameters, buffers and constants), by their value in the graph.
        dropped: The nodes that the capture removed since nothing uses their results. Their sizes may still be in use.
    """

    inputs: list[Value] = dataclasses.field(default_factory=list)
    outputs: list[Any] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    params: dict[Value, torch.Tensor] = dataclasses.field(default_factory=dict)
    dropped: list[Node] = dataclasses.field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Iterate over all nodes, including those of nested graphs."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.walk()

    def __str__(self) -> str:
        return "\n".join(_lines(self, ""))


def values_in(arg: Any) -> list[Value]:
    """Return the values in one argument: itself, or elements of nested lists."""
    if isinstance(arg, Value):
        return [arg]
    found: list[Value] = []
    for element in arg if isinstance(arg, (list, tuple)) else ():
        if isinstance(element, Value):
            found.append(element)
        elif isinstance(element, (list, tuple)):
            found += values_in(element)
    return found


def replace_values(arg: Any, replacement: Callable[[Value], Any]) -> Any:
    """Return one argument with each value in it, also in nested lists, replaced."""
    if isinstance(arg, Value):
        return replacement(arg)
    if isinstance(arg, (list, tuple)):
        return [replace_values(element, replacement) for element in arg]
    return arg


def _show(arg: Any) -> str:
    if isinstance(arg, Value):
        return f"%{arg.name}"
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(_show, arg))}]"
    return repr(arg)


def _lines(graph: Graph, indent: str) -> Iterator[str]:
    yield f"{indent}graph({', '.join(map(repr, graph.inputs))}):"
    for node in graph.nodes:
        comment = f"  # {node.where}" if node.where.file or node.where.scope else ""
        yield f"{indent}  {node!r}{comment}"
        for block in node.blocks:
            yield from _lines(block, indent + "    ")
    yield f"{indent}  return {', '.join(map(_show, graph.outputs))}"
