"""The operators If, Loop and Scan, with graphs inside a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxexp._builder import operands
from onnxexp._builder.attributes import encode
from onnxexp._builder.dtypes import torch_dtype
from onnxexp._builder.graph_state import GraphState, Scope, write_type
from onnxexp._builder.onnx_schemas import operator
from onnxexp._builder.resolve_call import check_graph_types
from onnxexp._builder.tensor import GraphBuilder, Tensor
from onnxexp._errors import LoweringError, OpsetError
from onnxexp._neutral_graph import ScalarType, TensorType, Type

LoopBody = Callable[..., tuple[Any, Sequence[Any], Sequence[Any]]]

_IF_OF_OTHER_SHAPES = 11
"""The first opset at which the branches of an If may have different shapes; before, onnx's inference refuses the model."""
_LOOP_THAT_CARRIES_NOTHING = 11
_IDENTITY_OF_SEQUENCES = 14


class ControlFlow(GraphBuilder):
    """The part of the builder that emits nodes with graphs inside."""

    _state: GraphState

    def subgraph(self, name: str, body: Callable[[], Sequence[Any]]) -> ir.Graph:
        """Build an attribute's graph from a function that emits its nodes.

        `body` calls `input`, emits nodes and returns the outputs.
        """
        with self._state.nested() as scope:
            return self._finish(scope, name, body())[0]

    def if_(self, cond: Tensor, then: Callable[[], Sequence[Any]], otherwise: Callable[[], Sequence[Any]]) -> list[Tensor]:
        """Emit an ``If``, where both functions emit their branch and return its values.

        Raises LoweringError where the values differ in number or in dtype.
        """
        graphs, values = [], []
        for branch, name in ((then, "then"), (otherwise, "else")):
            with self._state.nested() as scope:
                graph, results = self._finish(scope, name, branch())
            graphs.append(graph)
            values.append(results)
        self._check_branches(*values)
        attributes = {"then_branch": graphs[0], "else_branch": graphs[1]}
        outputs = self._append("If", [self._condition(cond)], attributes, values[0])
        for output, one, other in zip(outputs, *values, strict=True):
            output.fill(TensorType(None, self._common(one.shape, other.shape)))
            if output.known_dtype is None:
                output.value.type = one.value.type
        return outputs

    def loop(
        self, trip_count: Any, cond: Any, body: LoopBody, carried: Sequence[Any], *, types: Sequence[Type] | None = None
    ) -> list[Tensor]:
        """Emit a ``Loop`` around the nodes that `body` emits.

        `body(i, *carried)` returns (condition or None, carried, stacked). The result is the carried values after the last round,
        then the stacked ones (a new axis 0). The loop ends when the condition is false. `types` are the carried values' types
        where a size changes from round to round.
        """
        if not carried and self.opset < _LOOP_THAT_CARRIES_NOTHING:

            def carrying(index: Any, same: Any) -> tuple[Any, Sequence[Any], Sequence[Any]]:
                going, _, stacked = body(index)
                return going, [same], stacked

            return self.loop(trip_count, cond, carrying, [True])[1:]
        start = [self._typed(value) for value in carried]
        with self._state.nested() as scope:
            index = self.input("i", ScalarType(int))
            going = self.input("cond", TensorType(torch.bool, ()))
            inside = [self._carried_input(value, types[k] if types else None) for k, value in enumerate(start)]
            go_on, after, stacked = body(index, *inside)
            if types is None:
                _keep_shapes(inside, after)
            again = going if go_on is None else self._condition(go_on)
            graph, results = self._finish(scope, "loop", [again, *after, *stacked])
        _check_carried("Loop", start, results[1 : 1 + len(after)])
        count = None if trip_count is None else self.cast(trip_count, torch.int64)
        if cond is None and not start:
            cond = self.constant(True)  # onnx's checker wants two inputs
        first = None if cond is None else self._condition(cond)
        outputs = self._append("Loop", [count, first, *start], {"body": graph}, results[1:])
        all_rounds = isinstance(trip_count, int) and cond is None and go_on is None
        return self._with_types(outputs, inside, results[1:], trip_count if all_rounds else None)

    def scan(
        self,
        body: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
        carried: Sequence[Any],
        xs: Sequence[Tensor],
        *,
        reverse: bool = False,
    ) -> list[Tensor]:
        """Emit a ``Scan`` along axis 0 around the nodes that `body` emits.

        `body(*carried, *slices)` returns (carried, stacked). It takes one slice of each of `xs`, the last slices first with
        `reverse`. The result is the carried values after the last step, then the stacked ones.
        """
        start = [self._typed(value) for value in carried]
        with self._state.nested() as scope:
            inside = [self.input("carried", TensorType(value.known_dtype, value.shape)) for value in start]
            slices = [self.input("slice", TensorType(x.known_dtype, None if x.shape is None else x.shape[1:])) for x in xs]
            after, stacked = body(*inside, *slices)
            _keep_shapes(inside, after)
            graph, results = self._finish(scope, "scan", [*after, *stacked])
        _check_carried("Scan", start, results[: len(after)])
        attributes: dict[str, Any] = {"body": graph, "num_scan_inputs": len(xs)}
        if reverse:
            attributes["scan_input_directions"] = [1] * len(xs)
            if stacked:
                attributes["scan_output_directions"] = [1] * len(stacked)
        outputs = self._append("Scan", [*start, *xs], attributes, results)
        length = xs[0].shape[0] if xs and xs[0].shape else None
        return self._with_types(outputs, inside, results, length)

    def _finish(self, scope: Scope, name: str, outputs: Sequence[Any]) -> tuple[ir.Graph, list[Tensor]]:
        """Finish a scope's graph, with an Identity for each output from elsewhere."""
        made = {output for node in scope.nodes for output in node.outputs}
        results: list[Tensor] = []
        for output in outputs:
            tensor = self._typed(output)
            if tensor.value not in made or any(tensor.value is earlier.value for earlier in results):
                tensor = self._identity(tensor)
            _ = tensor.shape
            write_type(tensor)
            results.append(tensor)
        values, named = [tensor.value for tensor in results], self._state.node_names.unique(name)
        return ir.Graph(scope.inputs, values, nodes=scope.nodes, name=named), results

    def _identity(self, tensor: Tensor) -> Tensor:
        if self.opset >= _IDENTITY_OF_SEQUENCES or not isinstance(tensor.value.type, ir.SequenceType):
            return self._state.copy(tensor)
        element = self.constant(torch.zeros((), dtype=torch_dtype(tensor.value.type.elem_type.dtype)))
        longer = self.SequenceInsert(tensor, element, self.constant(0, torch.int64))
        same: Tensor = self.SequenceErase(longer, self.constant(0, torch.int64))
        self.infer(same)
        return same

    def _append(
        self, name: str, inputs: Sequence[Tensor | None], attributes: dict[str, Any], results: Sequence[Tensor]
    ) -> list[Tensor]:
        check_graph_types(name, self.opset, [tensor for tensor in (*inputs, *results) if tensor is not None])
        spec = operator("", name, self.opset)
        assert spec is not None
        values = [None if tensor is None else tensor.value for tensor in inputs]
        dtypes = [result.known_dtype for result in results]
        return list(self._state.append("", name, values, encode(spec, attributes), dtypes))

    def _check_branches(self, then: Sequence[Tensor], otherwise: Sequence[Tensor]) -> None:
        """Raise LoweringError or OpsetError where the branches' values do not match."""
        if len(then) != len(otherwise):
            raise LoweringError(f"the branches of an if return {len(then)} and {len(otherwise)} values")
        opset = self.opset
        for index, (one, other) in enumerate(zip(then, otherwise, strict=True)):
            if one.known_dtype != other.known_dtype:
                dtypes = f"{one.known_dtype} in one branch and {other.known_dtype} in the other"
                raise LoweringError(f"value {index} of an if is {dtypes}")
            if opset < _IF_OF_OTHER_SHAPES and _conflict(one.shape, other.shape):
                reason = f"value {index} of an if is {one.type} in one branch and {other.type} in the other, which ONNX has"
                first = _IF_OF_OTHER_SHAPES
                raise OpsetError(f"{reason} from opset {first} on; the target is opset {opset}", first)

    def _condition(self, cond: Any) -> Tensor:
        cond = self.cast(cond, torch.bool)
        return cond if cond.rank in (0, None) else self.Reshape(cond, [])  # type: ignore[no-any-return]

    def _common(self, one: Any, other: Any) -> Any:
        if one is None or other is None or len(one) != len(other):
            return None
        return tuple(size if size == with_ else self._state.fresh_dim() for size, with_ in zip(one, other, strict=True))

    def _typed(self, value: Any) -> Tensor:
        tensor = operands.tensor(self, value)
        _ = tensor.inferred_dtype
        return tensor

    def _carried_input(self, value: Tensor, type_: Type | None) -> Tensor:
        if type_ is None:
            type_ = ScalarType(value.scalar) if value.scalar else TensorType(value.known_dtype, value.shape)
        tensor = self.input("carried", type_, value.known_dtype)
        if value.known_dtype is None and value.value.type is not None:
            tensor.value.type = value.value.type
        return tensor

    def _with_types(
        self, outputs: list[Tensor], inside: Sequence[Tensor], results: Sequence[Tensor], length: Any
    ) -> list[Tensor]:
        """Fill in the outputs' shapes, those of the carried and of the stacked values."""
        for index, (output, result) in enumerate(zip(outputs, results, strict=True)):
            if index < len(inside):
                output.fill(TensorType(None, inside[index].known_shape))
                if output.known_dtype is None:
                    output.value.type = result.value.type
            elif result.shape is not None:
                rounds = length if length is not None else self._state.fresh_dim()
                output.fill(TensorType(None, (rounds, *result.shape)))
        return outputs


def _conflict(one: Any, other: Any) -> bool:
    """Return whether two branches' sizes differ, since ONNX Runtime allocates by one."""
    if one is None or other is None:
        return False
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(size != with_ and int in (type(size), type(with_)) for size, with_ in pairs)


def _keep_shapes(before: Sequence[Tensor], after: Sequence[Any]) -> None:
    """Give carried values their initial shapes.

    Sizes may change only if the caller declares the types.
    """
    for one, other in zip(before, after, strict=False):
        if isinstance(other, Tensor) and other.known_shape is None and one.known_shape is not None:
            other.stamp(TensorType(None, one.known_shape))


def _check_carried(name: str, start: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    if len(start) != len(after):
        raise LoweringError(f"a {name} starts with {len(start)} carried values and its body returns {len(after)}")
    for index, (before, now) in enumerate(zip(start, after, strict=True)):
        if before.known_dtype != now.known_dtype:
            raise LoweringError(f"value {index} carried by a {name} starts as {before.known_dtype} and becomes {now.known_dtype}")
