"""Emit the nodes of a scratch graph through the builder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import onnx
import onnx_ir as ir
import torch

from onnxexp import Builder, LoweringError, Tensor, warn
from onnxexp.graph import TensorType
from onnxexp.rewriting import TorchTensor
from onnxexp_torch_onnx.jit_types import tensor_type, type_of
from onnxexp_torch_onnx.overload_matching import match_overload

JitNode: TypeAlias = Any
JitValue: TypeAlias = Any

_READERS = {"c": "fs", "cs": "c"}
"""torch's `kindOf` swaps the names of two kinds."""
_KINDS = {
    "f": ir.AttributeType.FLOAT,
    "i": ir.AttributeType.INT,
    "s": ir.AttributeType.STRING,
    "t": ir.AttributeType.TENSOR,
    "fs": ir.AttributeType.FLOATS,
    "is": ir.AttributeType.INTS,
    "ss": ir.AttributeType.STRINGS,
    "ts": ir.AttributeType.TENSORS,
}
_WITH_BLOCKS = ("onnx::If", "onnx::Loop")
_CONSTANTS = ("onnx::Constant", "prim::Constant")
PACKING = ("prim::ListConstruct", "prim::TupleConstruct")
_UNPACKING = ("prim::ListUnpack", "prim::TupleUnpack")


def attributes(node: JitNode) -> dict[str, tuple[str, Any]]:
    """Read a node's attributes by name, as (kind, value).

    The kinds are torch's: f, i, s, t, g and their plurals.
    """
    found = {}
    for name in node.attributeNames():
        kind = node.kindOf(name)
        kind = _READERS.get(kind, kind)
        found[name] = (kind, getattr(node, kind)(name))  # torch names each reader by its kind
    return found


class Emitter:
    """Emit the nodes of one scratch graph.

    A node is emitted once, and again if it was changed since.

    Attributes:
        known: By the number of a scratch value, its Tensor, its Python constant, or a list of those.
        functions: The onnxscript functions behind node kinds.
    """

    def __init__(self, op: Builder) -> None:
        self.op = op
        self.known: dict[int, Any] = {}
        self.functions: dict[str, Any] = {}
        self._marks: dict[int, tuple[Any, ...]] = {}

    def add(self, node: JitNode) -> None:
        """Emit a node that was just made, and write the types of its outputs."""
        if node.kind() in _WITH_BLOCKS:
            return  # its blocks are filled later
        if node.owningBlock().owningNode() is None:
            self._emit(node)
            self._write_types(node)
            return
        if any(_is_untyped(value) for value in node.inputs()):
            return  # a block's own inputs have types once the block is emitted
        known, marks = dict(self.known), dict(self._marks)
        try:
            with self.op.trial():  # for the types only: a block is emitted with its node
                self._emit(node)
                self._write_types(node)
        finally:
            self.known, self._marks = known, marks

    def run(self, nodes: Iterable[JitNode]) -> None:
        """Emit the nodes that are new or changed, in order."""
        for node in nodes:
            self._emit(node)

    def look_up(self, value: JitValue) -> Any:
        """Find the result for a scratch value.

        The type from `setType` completes the inferred type.
        """
        found = self.result(value)
        if isinstance(found, Tensor):
            self._take_type(found, value)
        return found

    def result(self, value: JitValue) -> Any:
        """Find the result for a scratch value, without the type from `setType`."""
        number = value.unique()
        if number not in self.known:
            node = value.node()
            if node.kind() == "prim::Param":  # of a block that is not emitted yet
                self.known[number] = self.op.input(value.debugName(), type_of(value))
            else:
                self._emit(node)
        return self.known[number]

    def is_sequence(self, value: JitValue) -> bool:
        """Return whether the value is an ONNX sequence."""
        found = self.result(value)
        if not isinstance(found, Tensor) or found.known_dtype is not None:
            return False
        self.op.infer(found)
        return isinstance(found.value.type, ir.SequenceType)

    def _take_type(self, tensor: Tensor, value: JitValue) -> None:
        if tensor.known_dtype is not None and tensor.known_shape is not None:
            return
        self.op.infer(tensor)
        declared = type_of(value)
        dtype = declared.dtype if tensor.value.type is None else None
        tensor.fill(TensorType(dtype, declared.sizes))

    def _emit(self, node: JitNode) -> None:
        outputs = list(node.outputs())
        if not outputs or node.kind() == "prim::Param":
            return
        mark, number = self._mark(node), outputs[0].unique()
        if number in self.known and self._marks.get(number) in (None, mark):
            return
        results = self._results(node)
        if len(results) != len(outputs):
            raise LoweringError(f"{node.kind()} has {len(results)} outputs, the symbolic expects {len(outputs)}")
        self.known.update((output.unique(), result) for output, result in zip(outputs, results, strict=True))
        self._marks[number] = mark

    def _mark(self, node: JitNode) -> tuple[Any, ...]:
        """Build a key of the node's kind, attributes and inputs, to detect changes."""
        contents = tuple((name, _comparable(value)) for name, (_, value) in sorted(attributes(node).items()))
        inputs = tuple((value.unique(), id(self.known.get(value.unique()))) for value in node.inputs())
        return node.kind(), contents, inputs

    def _results(self, node: JitNode) -> Sequence[Any]:
        kind = node.kind()
        if kind in _CONSTANTS:
            return [self._constant(node)]
        inputs = [self.look_up(value) for value in node.inputs()]
        if kind in PACKING:
            return [inputs]
        if kind in _UNPACKING:
            return list(inputs[0])
        if kind in _WITH_BLOCKS and list(node.blocks()):
            return self._if(node, inputs) if kind == "onnx::If" else self._loop(node, inputs)
        if kind in self.functions:
            plain = {name: value for name, (_, value) in attributes(node).items()}
            results = self.op.function(self.functions[kind], *map(self._one, inputs), **plain)
            return results if isinstance(results, tuple) else [results]
        domain, _, name = kind.partition("::")
        if domain == "aten" and name != "ATen":
            return self._torch_op(node, inputs)
        return self._operator({"onnx": "", "aten": "org.pytorch.aten"}.get(domain, domain), name, node, inputs)

    def _torch_op(self, node: JitNode, inputs: list[Any]) -> Sequence[Any]:
        """Lower a torch operator.

        If the operator returns a list, the node's outputs are the elements of the list.
        """
        overload = attributes(node).get("overload", ("s", ""))[1]
        name = f"{node.kind()}.{overload}" if overload else node.kind()
        args = match_overload(self.op, name, inputs).args
        return self.op.torch_op(name, *args, outputs=node.outputsSize())

    def _operator(self, domain: str, name: str, node: JitNode, inputs: list[Any]) -> Sequence[Tensor]:
        args = [self._one(each) for each in inputs]
        while args and args[-1] is None:
            args.pop()
        kinds = attributes(node)
        if onnx.defs.has(name, domain):
            args = args if domain else align_dtypes(self.op, name, args)
            plain = {key: self._graph(key, value) if kind == "g" else value for key, (kind, value) in kinds.items()}
            results: Sequence[Tensor] = self.op.call(domain, name, *args, outputs=node.outputsSize(), **plain)
            return results
        if not domain:
            warn(f"ONNX has no operator {name}; a custom operator should be written domain::{name}")
        tensors = [each if each is None or isinstance(each, Tensor) else self.op.constant(each) for each in args]
        encoded = {key: _attribute(key, *kind_and_value) for key, kind_and_value in kinds.items()}
        custom: Sequence[Tensor] = self.op.domain(domain).call(name, *tensors, outputs=node.outputsSize(), **encoded)
        return custom

    def _one(self, arg: Any) -> Any:
        """Convert an operator's input: a list of tensors becomes a sequence."""
        if isinstance(arg, list) and any(isinstance(each, Tensor) and each.rank != 0 for each in arg):
            return self.op.SequenceConstruct(*arg)
        return arg

    def _constant(self, node: JitNode) -> Any:
        if node.kind() == "prim::Constant":
            return None if node.mustBeNone() or not node.hasAttributes() else node.output().toIValue()
        ((kind, value),) = attributes(node).values()
        if kind == "t":
            return self.op.wrap_constant(value.detach())
        if kind in ("s", "ss"):
            return self.op.call("", "Constant", **{"value_string" if kind == "s" else "value_strings": value})
        return self.op.constant(value)

    def _write_types(self, node: JitNode) -> None:
        for output in node.outputs():
            result = self.known.get(output.unique())
            if isinstance(result, Tensor):
                if result.known_dtype is None or result.known_shape is None:
                    self.op.infer(result)
                output.setType(tensor_type(result.known_dtype, result.known_shape))

    # Nested graphs and blocks

    def _graph(self, name: str, graph: Any) -> ir.Graph:
        """Emit the ONNX graph for a graph attribute, whose nodes use its own inputs only."""
        inner = Emitter(self.op)
        inner.functions = self.functions

        def body() -> list[Any]:
            inner.known = {value.unique(): self.op.input(value.debugName(), type_of(value)) for value in graph.inputs()}
            inner.run(graph.nodes())
            return [inner.look_up(value) for value in graph.outputs()]

        return self.op.subgraph(name, body)

    def _block(self, block: Any, inputs: Iterable[tuple[JitValue, Tensor]] = ()) -> list[Any]:
        known, marks = dict(self.known), dict(self._marks)
        self.known.update((value.unique(), tensor) for value, tensor in inputs)
        self.run(block.nodes())
        results = [self.look_up(value) for value in block.outputs()]
        self.known, self._marks = known, marks
        return results

    def _if(self, node: JitNode, inputs: list[Any]) -> list[Tensor]:
        then, otherwise = (self._branch(block) for block in node.blocks())
        return self.op.if_(inputs[0], then, otherwise)

    def _branch(self, block: Any) -> Callable[[], Sequence[Any]]:
        return lambda: self._block(block)

    def _loop(self, node: JitNode, inputs: list[Any]) -> list[Tensor]:
        (block,) = node.blocks()
        trips, going, *carried = inputs
        parameters = list(block.inputs())

        def body(index: Tensor, *values: Tensor) -> tuple[Any, Sequence[Any], Sequence[Any]]:
            running = self.op.constant(True)  # the condition, while a round runs
            cond, *after = self._block(block, zip(parameters, (index, running, *values), strict=True))
            return None if cond is running else cond, after[: len(carried)], after[len(carried) :]

        return self.op.loop(trips, going, body, carried)


def _is_untyped(value: JitValue) -> bool:
    return bool(value.node().kind() == "prim::Param" and type_of(value).dtype is None)


def _comparable(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), tuple(value.shape), value.dtype
    return tuple(map(_comparable, value)) if isinstance(value, list) else value


def _attribute(name: str, kind: str, value: Any) -> ir.Attr:
    if kind not in _KINDS:
        raise LoweringError(f"the attribute {name} of kind {kind!r} cannot be an attribute of a custom operator")
    if kind == "t":
        value = TorchTensor(value)
    elif kind == "ts":
        value = [TorchTensor(each) for each in value]
    return ir.Attr(name, _KINDS[kind], value)


_ONE_DTYPE = {
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Gemm", "MatMul", "Conv", "Concat", "Min", "Max",
    "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual",
}  # fmt: skip
"""Operators whose inputs all have one dtype."""
_ONE_DTYPE_FROM = {"Where": 1, "Clip": 0}
"""Operators whose inputs from this index on have one dtype."""


def align_dtypes(op: Builder, name: str, inputs: Sequence[Any]) -> list[Any]:
    """Cast the inputs of an operator that takes one dtype to their promoted dtype.

    0-d tensors take the dtype of the others, unless their dtype has a higher category. For Clip, the first input has the dtype.
    """
    start = 0 if name in _ONE_DTYPE else _ONE_DTYPE_FROM.get(name)
    if start is None:
        return list(inputs)
    tensors = [value for value in inputs[start:] if isinstance(value, Tensor)]
    for tensor in tensors:
        if tensor.known_dtype is None:
            op.infer(tensor)
    dtypes = {tensor.known_dtype for tensor in tensors}
    if len(dtypes) < 2 or None in dtypes:
        return list(inputs)
    common = tensors[0].dtype if name == "Clip" else _promote(tensors)
    return [*inputs[:start], *(op.cast(value, common) if isinstance(value, Tensor) else value for value in inputs[start:])]


def _promote(tensors: Sequence[Tensor]) -> torch.dtype:
    """Promote the dtypes of the tensors as torch does.

    A 0-d tensor counts only if its dtype is of a higher category than the others.
    """
    scalars = [tensor.dtype for tensor in tensors if tensor.rank == 0]
    others = [tensor.dtype for tensor in tensors if tensor.rank != 0]
    if not scalars or not others:
        return functools.reduce(torch.promote_types, scalars or others)
    scalar, other = functools.reduce(torch.promote_types, scalars), functools.reduce(torch.promote_types, others)
    return other if _category(scalar) <= _category(other) else scalar


def _category(dtype: torch.dtype) -> int:
    """Return a dtype's place in the order bool, integer, floating, complex."""
    if dtype == torch.bool:
        return 0
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 1
