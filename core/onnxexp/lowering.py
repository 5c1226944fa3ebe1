"""The captured graph, node by node, through the symbolics into the builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxexp import control_flow
from onnxexp.builder import Builder, Declined
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.graph import Graph, Node, ScalarType, TensorType, Value
from onnxexp.report.problems import Problem, describe, no_plugins, unsupported
from onnxexp.symbolics import Dispatcher, Symbolic
from onnxexp.values import Tensor

__all__ = ["Decompose", "Lowering"]

Decompose: TypeAlias = Callable[[Node], Graph | None]
"""Gives the simpler nodes that a node stands for (its arguments as the graph's inputs), None where torch knows none."""


class Lowering:
    """One export's lowering: `run` takes the graph, `builder` then holds the ONNX nodes.

    What no plugin claims is decomposed node by node. All operators that stand in the way are gathered and named at once.
    """

    def __init__(self, builder: Builder, dispatcher: Dispatcher, decompose: Decompose) -> None:
        self.builder = builder
        self._dispatcher = dispatcher
        self._decompose = decompose
        self._env: dict[Value, Any] = {}
        self._problems: list[Problem] = []

    def bind(self, value: Value, to: Any) -> None:
        """Say what a captured value is: a Tensor or a Python constant."""
        self._env[value] = to

    def resolve(self, arg: Any) -> Any:
        """An argument of a captured node with its values looked up."""
        if isinstance(arg, Value):
            return self._env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.resolve(element) for element in arg]
        return arg

    def run(self, graph: Graph) -> list[Any]:
        """Lower every node; returns what the graph's outputs are.

        Raises:
            UnsupportedOperators: operators that neither a plugin lowers nor torch decomposes, all of them.
            OpsetError: the target opset cannot express some; `first_opset` can express all.
            LoweringError: a symbolic cannot lower a call.
        """
        if not len(self._dispatcher) and graph.nodes:
            raise no_plugins(graph)
        outputs = self.block(graph)
        if self._problems:
            raise unsupported(self._problems)
        return outputs

    def block(self, graph: Graph) -> list[Any]:
        """Lower a (nested) graph whose inputs are bound."""
        for value, tensor in graph.params.items():
            self._env[value] = self.builder.wrap_constant(tensor, value.name)
        for node in graph.nodes:
            self.node(node)
        return [self.resolve(output) for output in graph.outputs]

    def node(self, node: Node) -> None:
        """Lower one node and bind its outputs."""
        outer = self.builder._node
        self.builder.node = node
        try:
            results = self._results(node)
        except OpsetError as error:
            self._problems.append(Problem(node, str(error), error.first_opset, opset=True))
            results = None
        except Declined as error:
            self._problems.append(Problem(node, str(error)))
            results = None
        except LoweringError as error:
            raise LoweringError(describe(node, str(error), self._types(node))) from error
        except Exception as error:  # a symbolic may be anyone's: whatever it raises is told with the operator and the user's line
            raise LoweringError(
                describe(node, f"its symbolic failed: {type(error).__name__}: {error}", self._types(node))
            ) from error
        finally:
            self.builder.node = outer
        self._bind_outputs(node, [self._placeholder(output) for output in node.outputs] if results is None else results)

    def _results(self, node: Node) -> list[Any] | None:
        if node.op in control_flow.LOWERINGS:
            return control_flow.LOWERINGS[node.op](self, node)
        symbolic, refusal = self._find(node)
        if symbolic is not None:
            try:
                return _as_list(symbolic.function(self.builder, *map(self.resolve, node.args)), node)
            except Declined as error:
                refusal = error
        graph = self._decompose(node)
        if graph is not None:
            return self._decomposed(node, graph, refusal)
        if refusal is not None:
            raise refusal
        self._problems.append(Problem(node))
        return None

    def _find(self, node: Node) -> tuple[Symbolic | None, LoweringError | None]:
        """The symbolic, or why there is none at this opset (then torch may know simpler operators)."""
        try:
            return self._dispatcher.find(node.op, self.builder.opset), None
        except OpsetError as error:
            return None, error

    def _decomposed(self, node: Node, graph: Graph, refusal: LoweringError | None) -> list[Any]:
        """Lower what a node stands for; what is missing in there is the node's own problem."""
        before = len(self._problems)
        for value, arg in zip(graph.inputs, node.inputs(), strict=True):
            self._env[value] = self._env[arg]
        for inner in graph.walk():
            inner.where = node.where
        results = self.block(graph)
        inside = self._problems[before:]
        if inside and isinstance(refusal, OpsetError):
            self._problems[before:] = [Problem(node, str(refusal), refusal.first_opset, opset=True)]
        elif inside and not all(problem.opset for problem in inside):
            missing = ", ".join(sorted({problem.node.op for problem in inside}))
            reason = f"{refusal or 'no plugin lowers it'}, nor does any all that torch decomposes it to ({missing})"
            self._problems[before:] = [Problem(node, reason, skeleton=refusal is None)]
        return results

    def _bind_outputs(self, node: Node, results: Sequence[Any]) -> None:
        for value, result in zip(node.outputs, results, strict=True):
            if isinstance(value.type, TensorType) and isinstance(result, (bool, int, float)):
                result = self.builder.constant(result, value.type.dtype)
            if isinstance(result, Tensor):
                self._check(node, value, result)
                fresh = result._value is not None and result.known_shape is None
                result.stamp(value.type)
                if fresh or (result._value is not None and result._value.type is None):
                    self.builder.state.rename(result, value.name)
            self._env[value] = result

    def _check(self, node: Node, value: Value, result: Tensor) -> None:
        """A symbolic that gives another dtype than torch is wrong; better told here than found in numbers later."""
        if isinstance(value.type, TensorType) and value.type.dtype is not None:
            if result.known_dtype is None:
                self.builder.infer(result)
            if result.known_dtype not in (None, value.type.dtype):
                message = f"its symbolic gives {result.known_dtype} where torch gives {value.type.dtype} (%{value.name})"
                raise LoweringError(describe(node, message, self._types(node)))

    def _placeholder(self, value: Value) -> Tensor:
        """Stands for the result of an unsupported node, so that the rest of the graph can be looked at too."""
        tensor = Tensor(self.builder, ir.Value(name=value.name))
        tensor.stamp(value.type)
        if isinstance(value.type, ScalarType):
            tensor._dtype = self.builder.constant(value.type.kind()).dtype
        self.builder.state.tensors[tensor.value] = tensor  # so that types can be inferred from it
        return tensor

    def _types(self, node: Node) -> list[str]:
        return [repr(self._env.get(value, value)) for value in node.inputs()]


def _as_list(results: Any, node: Node) -> list[Any]:
    listed = list(results) if isinstance(results, (list, tuple)) else [results]
    nothing = bool(node.outputs) and all(result is None for result in listed)
    if (
        nothing
        or len(listed) < len(node.outputs)
        or any(not isinstance(result, (Tensor, bool, int, float, type(None))) for result in listed[: len(node.outputs)])
    ):
        raise LoweringError(f"its symbolic returned {results!r}; {len(node.outputs)} Tensors were expected")
    return listed[: len(node.outputs)]
