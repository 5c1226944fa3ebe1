"""The captured graph, node by node, through the symbolics into the builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from onnxexp.builder.builder import Builder, Declined, state_of
from onnxexp.builder.tensor import Tensor
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.graph import Graph, Node, TensorType, Value
from onnxexp.lowering import control_flow
from onnxexp.lowering.output_check import contradiction
from onnxexp.lowering.problem_report import Problem, describe, no_plugins, unsupported
from onnxexp.lowering.symbolic_resolver import Answer, Asking
from onnxexp.lowering.torch_fallback import OperatorExportTypes, keep
from onnxexp.plugins.loading import Plugins
from onnxexp.torch_ops.schemas import called

__all__ = ["Decompose", "Lowering"]

Decompose: TypeAlias = Callable[[Node], Graph | None]
"""Gives the simpler nodes that a node stands for (its arguments as the graph's inputs), None where torch knows none."""


class Lowering:
    """One export's lowering: `run` takes the graph, `builder` then holds the ONNX nodes.

    What no plugin claims is decomposed node by node. All operators that stand in the way are gathered and named at once.

    Attributes:
        lowered: Every node of the captured graph with who lowered it: a plugin's name, "decomposed", or "core"; "" for nobody.
        problems: What stands in the way.
    """

    def __init__(
        self,
        builder: Builder,
        plugins: Plugins,
        decompose: Decompose,
        export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    ) -> None:
        self.builder = builder
        self._state = state_of(builder)
        builder.connect(self.resolve, self.call)
        self.lowered: list[tuple[Node, str]] = []
        self.problems: list[Problem] = []
        self._asking = Asking(builder, plugins)
        self._off = plugins.off
        self._decompose = decompose
        self._export_type = export_type
        self._inside = 0
        self._env: dict[Value, Any] = {}

    def bind(self, value: Value, to: Any) -> None:
        """Say what a captured value is: a Tensor or a Python constant."""
        self._env[value] = to

    def resolve(self, arg: Any) -> Any:
        """An argument of a captured node with its values looked up."""
        if isinstance(arg, Value):
            return self._env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.resolve(element) if isinstance(element, _HOLDING) else element for element in arg]
        return arg

    def run(self, graph: Graph) -> list[Any]:
        """Lower every node; returns what the graph's outputs are.

        Raises:
            UnsupportedOperators: operators that neither a plugin lowers nor torch decomposes, all of them.
            OpsetError: the target opset cannot express some; `first_opset` can express all.
            LoweringError: a symbolic cannot lower a call.
        """
        try:
            if not self._asking and graph.nodes and not self._export_type.keeps_all:
                raise no_plugins(graph, self._off)
            outputs = self.block(graph)
            if self.problems:
                raise unsupported(self.problems, self._off)
        except LoweringError as error:
            error.lowered = self.lowered
            raise
        return outputs

    def block(self, graph: Graph) -> list[Any]:
        """Lower a (nested) graph whose inputs are bound."""
        for value, tensor in graph.params.items():
            self.builder.params[value.name] = tensor
            self._env[value] = self.builder.wrap_constant(tensor, value.name)
        for node in graph.nodes:
            self.node(node)
        return list(self.resolve(graph.outputs))

    def node(self, node: Node) -> None:
        """Lower one node and bind its outputs."""
        with self.builder.at(node):
            results = self._results_or_problem(node)
            self._bind_outputs(node, [self._placeholder(output) for output in node.outputs] if results is None else results)

    def _results_or_problem(self, node: Node) -> list[Any] | None:
        try:
            return self._results(node)
        except OpsetError as error:
            self.problems.append(Problem(node, str(error), error.first_opset, opset=True))
        except Declined as error:
            self.problems.append(Problem(node, str(error)))
        except LoweringError as error:
            described = LoweringError(describe(node, str(error), self._types(node)))
            described.__cause__ = error.__cause__ or error
            self.problems.append(Problem(node, str(error), error=described))
        except Exception as error:  # a plugin's symbolic may raise anything
            message = f"lowering it failed: {type(error).__name__}: {error}"
            raise LoweringError(describe(node, message, self._types(node))) from error
        return None

    def call(self, name: str, args: Sequence[Any], outputs: int | None = None) -> list[Any]:
        """Lower a call of a torch operator that a symbolic makes, at the place of the node that it is asked for.

        Raises LoweringError where nobody lowers it.
        """
        outer = self.builder.node
        node = called(name, [self._captured(arg) for arg in args], outer, self.builder.fresh_dim, outputs)
        self._inside += 1
        try:
            with self.builder.at(node, nested=True):
                results = self._results(node)
        finally:
            self._inside -= 1
        if results is None:
            raise LoweringError(f"{name}: no plugin lowers it, which {outer.op} needs")
        return results

    def _captured(self, arg: Any) -> Any:
        """A Tensor as a value that the environment knows."""
        if isinstance(arg, Tensor):
            value = Value(arg.name or "arg", arg.type)
            self._env[value] = arg
            return value
        return [self._captured(each) for each in arg] if isinstance(arg, (list, tuple)) else arg

    def _results(self, node: Node) -> list[Any] | None:
        if node.op in control_flow.LOWERINGS:
            self._note(node, "core")
            return control_flow.LOWERINGS[node.op](self, node)
        if self._export_type.keeps_all:
            return self._kept(node)
        if node.outputs and all(map(_is_empty, node.outputs)):
            nothing = [self._nothing(value) for value in node.outputs]
            if None not in nothing:
                self._note(node, "core")
                return nothing
        answer = self._asking.ask(node)
        if answer.results is not None:
            self._check(node, answer)
            self._note(node, answer.plugin)
            return answer.results
        graph = self._decompose(node)
        if graph is not None:
            before = len(self.problems)
            results = self._decomposed(node, graph, answer.refusal)
            if len(self.problems) != before and self._export_type.keeps_unknown:
                del self.problems[before:]
                return self._kept(node)
            self._note(node, "decomposed" if len(self.problems) == before else "")
            return results
        if self._export_type.keeps_unknown:
            return self._kept(node)
        self._note(node, "")
        if answer.refusal is not None:
            raise answer.refusal
        self.problems.append(Problem(node))
        return None

    def _kept(self, node: Node) -> list[Any]:
        self._note(node, "core")
        return list(keep(self.builder, node, [self.resolve(arg) for arg in node.args], self._export_type))

    def _nothing(self, value: Value) -> Tensor | None:
        """A tensor without elements, whatever computes it: operators, and their kernels, differ in what they make of such.

        None where only the computation tells its other sizes.
        """
        assert isinstance(value.type, TensorType) and value.type.sizes is not None
        op, sizes = self.builder, [self.builder.size_of(size) for size in value.type.sizes]
        if all(isinstance(size, int) for size in sizes):
            return op.constant(torch.empty([int(size) for size in value.type.sizes], dtype=value.type.dtype))
        if None in sizes:
            return None
        made = op.Expand(op.constant(torch.zeros((), dtype=value.type.dtype)), sizes)
        assert isinstance(made, Tensor)
        return made

    def _note(self, node: Node, by: str) -> None:
        if not self._inside:
            self.lowered.append((node, by))

    def _decomposed(self, node: Node, graph: Graph, refusal: LoweringError | None) -> list[Any]:
        """Lower what a node stands for; what is missing in there is the node's own problem."""
        before = len(self.problems)
        for value, arg in zip(graph.inputs, node.inputs(), strict=True):
            self._env[value] = self._env[arg]
        for inner in graph.walk():
            inner.where = node.where
        self._inside += 1
        try:
            results = self.block(graph)
        finally:
            self._inside -= 1
        inside = self.problems[before:]
        failed = [problem for problem in inside if problem.error is not None]
        if failed:
            self.problems[before:] = failed
        elif inside and isinstance(refusal, OpsetError):
            self.problems[before:] = [Problem(node, str(refusal), refusal.first_opset, opset=True)]
        elif inside and not all(problem.opset for problem in inside):
            unknown = "no plugin lowers it"
            refused = {each.node.op: each.reason for each in inside if each.reason and not each.skeleton}
            missing = sorted({f"{each.node.op}: {refused.get(each.node.op, unknown)}" for each in inside})
            reason = f"{refusal or unknown}, nor all of what torch decomposes it to ({'; '.join(missing)})"
            self.problems[before:] = [Problem(node, reason, skeleton=refusal is None and not refused)]
        return results

    def _bind_outputs(self, node: Node, results: Sequence[Any]) -> None:
        for value, result in zip(node.outputs, results, strict=True):
            if isinstance(result, (bool, int, float)) and isinstance(value.type, TensorType):
                result = self.builder.constant(result, value.type.dtype)
            if isinstance(result, Tensor):
                made = result.known_value
                fresh = made is not None and (result.known_shape is None or made.type is None)
                result.stamp(value.type)
                if fresh:
                    self._state.rename(result, value.name)
            self._env[value] = result

    def _check(self, node: Node, answer: Answer) -> None:
        for value, result in zip(node.outputs, answer.results or (), strict=True):
            told = contradiction(value, result)
            if told:
                raise LoweringError(f"{answer.who} {told}")

    def _placeholder(self, value: Value) -> Tensor:
        """Stands for the result of an unsupported node, so that the rest of the graph can be looked at too."""
        return self._state.placeholder(value.name, value.type)

    def _types(self, node: Node) -> list[str]:
        return [repr(self._env.get(value, value)) for value in node.inputs()]


_HOLDING = (Value, list, tuple)


def _is_empty(value: Value) -> bool:
    """Is it a tensor without elements, whatever the sizes that are not known are?"""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.sizes is None or type_.dtype is None or type_.dtype.is_complex:
        return False
    return 0 in type_.sizes
