"""If, Loop and Scan: graphs inside a node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnxexp.builder import operands
from onnxexp.builder.attributes import encode
from onnxexp.builder.dtypes import from_onnx
from onnxexp.builder.graph_state import Scope, write_type
from onnxexp.builder.onnx_schemas import operator
from onnxexp.builder.op_call import check_graph_types
from onnxexp.builder.tensor import Tensor
from onnxexp.graph import ScalarType, TensorType, Type

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder

__all__ = ["graph_of", "if_", "loop", "nested_scope", "scan"]

_IF_OF_OTHER_SHAPES = 11
"""The first opset at which the branches of an If may give different shapes; before, onnx's inference refuses the model."""


_LOOP_THAT_CARRIES_NOTHING = 11
_IDENTITY_OF_SEQUENCES = 14


@contextlib.contextmanager
def nested_scope(op: Builder) -> Iterator[Scope]:
    """Emit into a new scope inside the current one."""
    outer = op.state.scope
    op.state.scope = Scope(outer)
    try:
        yield op.state.scope
    finally:
        op.state.scope = outer


def _graph(op: Builder, scope: Scope, name: str, outputs: Sequence[Any]) -> tuple[ir.Graph, list[Tensor]]:
    """The graph of a finished scope. What a graph returns must be made in it: anything else goes through an Identity."""
    made = {output for node in scope.nodes for output in node.outputs}
    results: list[Tensor] = []
    for output in outputs:
        tensor = _typed(op, output)
        if tensor.value not in made or any(tensor.value is earlier.value for earlier in results):
            tensor = _identity(op, tensor)
        _ = tensor.shape
        write_type(tensor)
        results.append(tensor)
    graph = ir.Graph(scope.inputs, [tensor.value for tensor in results], nodes=scope.nodes, name=op.state.node_names.unique(name))
    return graph, results


def graph_of(op: Builder, name: str, body: Callable[[], Sequence[Any]]) -> ir.Graph:
    """The graph that `body` emits: its inputs are those that it makes, its outputs what it returns."""
    with nested_scope(op) as scope:
        return _graph(op, scope, name, body())[0]


def _identity(op: Builder, tensor: Tensor) -> Tensor:
    if op.opset < _IDENTITY_OF_SEQUENCES and isinstance(tensor.value.type, ir.SequenceType):
        element = op.constant(torch.zeros((), dtype=from_onnx(tensor.value.type.elem_type.dtype)))
        longer = op.SequenceInsert(tensor, element, op.constant(0, torch.int64))
        same = op.SequenceErase(longer, op.constant(0, torch.int64))
        op.infer(same)
        return same  # type: ignore[no-any-return]
    (copy,) = op.state.append(op, "", "Identity", [tensor.value], {}, [tensor.known_dtype], None)
    copy._shape = tensor.shape
    copy._value.type = tensor.value.type  # type: ignore[union-attr] # sequences keep their type
    return copy


def _node(
    op: Builder, name: str, inputs: Sequence[Tensor | None], attributes: dict[str, Any], results: Sequence[Tensor]
) -> list[Tensor]:
    check_graph_types(name, op.opset, [tensor for tensor in (*inputs, *results) if tensor is not None])
    spec = operator("", name, op.opset)
    assert spec is not None
    encoded = encode(spec, attributes)  # the schema tells the types; onnx-ir would look at each value for it, which takes long
    values = [None if tensor is None else tensor.value for tensor in inputs]
    outputs = op.state.append(op, "", name, values, encoded, [result.known_dtype for result in results], None)
    return list(outputs)


def if_(op: Builder, cond: Tensor, then: Callable[[], Sequence[Any]], otherwise: Callable[[], Sequence[Any]]) -> list[Tensor]:
    """See `Builder.if_`. Raises LoweringError where the branches' values do not go together."""
    graphs, values = [], []
    for branch, name in ((then, "then"), (otherwise, "else")):
        with nested_scope(op) as scope:
            graph, results = _graph(op, scope, name, branch())
        graphs.append(graph)
        values.append(results)
    if len(values[0]) != len(values[1]):
        raise op.error(f"the branches of an if return {len(values[0])} and {len(values[1])} values")
    for index, (one, other) in enumerate(zip(*values, strict=True)):
        if one.known_dtype != other.known_dtype:
            raise op.error(f"value {index} of an if is {one.known_dtype} in one branch and {other.known_dtype} in the other")
        if op.opset < _IF_OF_OTHER_SHAPES and _conflict(one.shape, other.shape):
            reason = f"value {index} of an if is {one.type} in one branch and {other.type} in the other, which ONNX has"
            op.opset_error(f"{reason} from opset {_IF_OF_OTHER_SHAPES} on; the target is opset {op.opset}", _IF_OF_OTHER_SHAPES)
    outputs = _node(op, "If", [_boolean(op, cond)], {"then_branch": graphs[0], "else_branch": graphs[1]}, values[0])
    for output, one, other in zip(outputs, *values, strict=True):
        output._shape = _common(op, one.shape, other.shape)
        if output.known_dtype is None:
            output.value.type = one.value.type
    return outputs


def _conflict(one: Any, other: Any) -> bool:
    """Whether one branch gives a size that the other's is not: inference keeps it, and ONNX Runtime allocates by it."""
    if one is None or other is None:
        return False
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(size != with_ and int in (type(size), type(with_)) for size, with_ in pairs)


def _boolean(op: Builder, cond: Any) -> Tensor:
    cond = op.cast(cond, torch.bool)
    return cond if cond.rank in (0, None) else op.Reshape(cond, [])  # type: ignore[no-any-return]


def _common(op: Builder, one: Any, other: Any) -> Any:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(size if size == with_ else op.fresh_dim() for size, with_ in zip(one, other, strict=True))


def loop(
    op: Builder,
    trip_count: Any,
    cond: Any,
    body: Callable[..., tuple[Any, Sequence[Any], Sequence[Any]]],
    carried: Sequence[Any],
    types: Sequence[Type] | None,
) -> list[Tensor]:
    """See `Builder.loop`."""
    if not carried and op.opset < _LOOP_THAT_CARRIES_NOTHING:
        return loop(op, trip_count, cond, _carrying(body), [True], None)[1:]
    start = [_typed(op, value) for value in carried]
    with nested_scope(op) as scope:
        index = op.input("i", ScalarType(int))
        going = op.input("cond", TensorType(torch.bool, ()))
        inside = [_carried_input(op, value, types[k] if types else None) for k, value in enumerate(start)]
        go_on, after, stacked = body(index, *inside)
        if types is None:
            _of_one_shape(inside, after)
        again = going if go_on is None else _boolean(op, go_on)
        graph, results = _graph(op, scope, "loop", [again, *after, *stacked])
    _check_carried(op, "Loop", start, results[1 : 1 + len(after)])
    count = None if trip_count is None else op.cast(trip_count, torch.int64)
    if cond is None and not start:
        cond = op.constant(True)  # onnx's checker wants two inputs
    first = None if cond is None else _boolean(op, cond)
    outputs = _node(op, "Loop", [count, first, *start], {"body": graph}, results[1:])
    all_rounds = isinstance(trip_count, int) and cond is None and go_on is None
    return _shapes(op, outputs, inside, results[1:], trip_count if all_rounds else None)


def _carrying(body: Callable[..., tuple[Any, Sequence[Any], Sequence[Any]]]) -> Callable[..., Any]:
    """The body of a loop that carries nothing as one that carries something."""

    def carrying(index: Any, same: Any) -> tuple[Any, Sequence[Any], Sequence[Any]]:
        going, _, stacked = body(index)
        return going, [same], stacked

    return carrying


def scan(
    op: Builder,
    body: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    carried: Sequence[Any],
    xs: Sequence[Tensor],
    *,
    reverse: bool,
) -> list[Tensor]:
    """See `Builder.scan`."""
    start = [_typed(op, value) for value in carried]
    with nested_scope(op) as scope:
        inside = [op.input("carried", TensorType(value.known_dtype, value.shape)) for value in start]
        slices = [op.input("slice", TensorType(x.known_dtype, None if x.shape is None else x.shape[1:])) for x in xs]
        after, stacked = body(*inside, *slices)
        _of_one_shape(inside, after)
        graph, results = _graph(op, scope, "scan", [*after, *stacked])
    _check_carried(op, "Scan", start, results[: len(after)])
    attributes: dict[str, Any] = {"body": graph, "num_scan_inputs": len(xs)}
    if reverse:
        attributes["scan_input_directions"] = [1] * len(xs)
        if stacked:
            attributes["scan_output_directions"] = [1] * len(stacked)
    outputs = _node(op, "Scan", [*start, *xs], attributes, results)
    length = xs[0].shape[0] if xs and xs[0].shape else None
    return _shapes(op, outputs, inside, results, length)


def _typed(op: Builder, value: Any) -> Tensor:
    tensor = operands.tensor(op, value)
    if tensor.known_dtype is None:
        op.infer(tensor)
    return tensor


def _carried_input(op: Builder, value: Tensor, type_: Type | None) -> Tensor:
    if type_ is None:
        type_ = ScalarType(value.scalar) if value.scalar else TensorType(value.known_dtype, value.shape)
    tensor = op.input("carried", type_)
    if value.known_dtype is not None:
        tensor._dtype = value.known_dtype
    elif value.value.type is not None:
        tensor.value.type = value.value.type
    return tensor


def _of_one_shape(before: Sequence[Tensor], after: Sequence[Any]) -> None:
    """Nobody said that a size changes from round to round: nothing has to be inferred then."""
    for one, other in zip(before, after, strict=False):
        if isinstance(other, Tensor) and other.known_shape is None and one.known_shape is not None:
            other.stamp(TensorType(None, one.known_shape))


def _check_carried(op: Builder, name: str, start: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    if len(start) != len(after):
        raise op.error(f"a {name} starts with {len(start)} carried values and its body gives {len(after)}")
    for index, (before, now) in enumerate(zip(start, after, strict=True)):
        if before.known_dtype != now.known_dtype:
            raise op.error(f"value {index} carried by a {name} starts as {before.known_dtype} and becomes {now.known_dtype}")


def _shapes(op: Builder, outputs: list[Tensor], inside: Sequence[Tensor], results: Sequence[Tensor], length: Any) -> list[Tensor]:
    for index, (output, result) in enumerate(zip(outputs, results, strict=True)):
        if index < len(inside):
            output._shape = inside[index].known_shape
            if output.known_dtype is None:
                output.value.type = result.value.type
        elif result.shape is not None:
            output._shape = (length if length is not None else op.fresh_dim(), *result.shape)
    return outputs
