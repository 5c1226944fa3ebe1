"""Lower a captured graph node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import torch

from onnxexp._builder.builder import Declined, state_of
from onnxexp._builder.export_builder import ExportBuilder
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError, OpsetError, PluginConflict
from onnxexp._functionalize.aliasing import values_used
from onnxexp._functionalize.node_emitter import differ
from onnxexp._lowering.keep_torch_ops import OperatorExportTypes, emit_torch_node
from onnxexp._lowering.problem_report import Problem, describe, no_plugins, unsupported
from onnxexp._lowering.symbolic_resolver import Resolution, SymbolicResolver
from onnxexp._model.origins import Counterpart
from onnxexp._neutral_graph import Dim, Graph, Node, TensorType, Value, replace_values
from onnxexp._plugins.loading import Plugins
from onnxexp._torch_ops.schemas import called

Decompose: TypeAlias = Callable[[Node], Graph | None]
"""Decomposes a node into a graph; None where torch has no decomposition."""

NodeLowering: TypeAlias = "Callable[[Lowering, Node], list[Any]]"
"""The core's own lowering of one node, see `control_flow`."""

_SMALL = 4096
"""Bytes up to which a folded constant is kept beside the program, to be compared."""


class Lowering:
    """The lowering of one export, where `run` adds ONNX nodes to the builder.

    A node that no plugin claims is decomposed. One error at the end names all operators that cannot be lowered.

    Attributes:
        lowered: Every node of the captured graph and its lowering: a plugin's name, "decomposed", "core", "torch"
            for one that is kept, or "" for none.
        symbolics: The full name of the symbolic that lowered a node, also one of a decomposition.
        decompositions: The graphs of the nodes that were decomposed.
        problems: The nodes that could not be lowered.
        kept: The nodes that became nodes of torch's operators.
    """

    def __init__(
        self,
        builder: ExportBuilder,
        plugins: Plugins,
        decompose: Decompose,
        export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
        core_lowerings: Mapping[str, NodeLowering] | None = None,
    ) -> None:
        self.builder = builder
        self._state = state_of(builder)
        builder.connect(self.resolve, self.call)
        self.lowered: list[tuple[Node, str]] = []
        self.symbolics: dict[Node, str] = {}
        self.decompositions: dict[Node, Graph] = {}
        self.problems: list[Problem] = []
        self.kept: list[Node] = []
        self._resolver = SymbolicResolver(builder, plugins)
        self._core_lowerings = core_lowerings or {}
        self._off = plugins.off
        self._decompose = decompose
        self._export_type = export_type
        self._inside = 0
        self._env: dict[Value, Any] = {}
        self._used, self._symbols = set[Value](), frozenset[Dim]()

    def bind(self, value: Value, to: Any) -> None:
        """Bind a captured value to a Tensor or a Python constant."""
        self._env[value] = to

    def resolve(self, arg: Any) -> Any:
        """Replace the values in an argument of a captured node by their bindings."""
        return replace_values(arg, self._env.__getitem__)

    def run(self, graph: Graph) -> list[Any]:
        """Lower every node and return the graph's outputs.

        Raises:
            UnsupportedOperators: No plugin lowers some operators and torch does not decompose them; the error lists all.
            OpsetError: The target opset cannot express some operators; `first_opset` can express all.
            LoweringError: A symbolic cannot lower a call.
        """
        try:
            if not self._resolver and graph.nodes and not self._export_type.keeps_unknown:
                raise no_plugins(graph, self._off)
            self._symbols = frozenset(size for tensor in self.builder.graph_inputs for size in tensor.known_shape or ())
            outputs = self.block(graph)
            if self.problems:
                raise unsupported(self.problems, self._off)
        except LoweringError as error:
            error.lowered = self.lowered
            raise
        return outputs

    def block(self, graph: Graph) -> list[Any]:
        """Lower a (nested) graph whose inputs are bound."""
        self._used.update(values_used(graph))
        for value, tensor in graph.params.items():
            self.builder.params[value.name] = tensor
            self._env[value] = self.builder.wrap_constant(tensor, value.name)
        for node in graph.nodes:
            self.node(node)
        return list(self.resolve(graph.outputs))

    def node(self, node: Node) -> None:
        """Lower one node and bind its outputs."""
        with self.builder.at(node):
            if (results := self._results_or_problem(node)) is None:  # stand-ins, so that the rest is lowered too
                results = [self._state.placeholder(output.name, output.type) for output in node.outputs]
            self._bind_outputs(node, results)

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
        except PluginConflict:
            raise
        except Exception as error:  # a symbolic may raise anything: the error names the operator and the user's line
            message = f"lowering it failed: {type(error).__name__}: {error}"
            raise LoweringError(describe(node, message, self._types(node))) from error
        return None

    def call(self, name: str, args: Sequence[Any], outputs: int | None = None) -> list[Any]:
        """Lower a torch operator that a symbolic calls, at the place of its node.

        Raises LoweringError where no plugin lowers it.
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
        """Return a new captured value bound to a Tensor."""
        if isinstance(arg, Tensor):
            value = Value(arg.name or "arg", arg.type)
            self._env[value] = arg
            return value
        return [self._captured(each) for each in arg] if isinstance(arg, (list, tuple)) else arg

    def _results(self, node: Node) -> list[Any] | None:
        if node.op in self._core_lowerings:
            self._note(node, "core")
            return self._core_lowerings[node.op](self, node)
        if self._export_type.keeps_all:
            return self._kept(node)
        if node.outputs and all(map(_is_empty, node.outputs)):
            empty = [self._empty(value) for value in node.outputs]
            if None not in empty:
                self._note(node, "core")
                return empty
        resolution = self._resolver.resolve(node)
        if resolution.results is not None:
            self._check(node, resolution)
            self._note(node, resolution.plugin)
            self.symbolics[node] = self._state.provenance.symbolic
            return resolution.results
        if (graph := self._decompose(node)) is not None:
            self.decompositions[node] = graph
            before = len(self.problems)
            results = self._decomposed(node, graph, resolution.refusal)
            if len(self.problems) != before and self._export_type.keeps_unknown:
                del self.problems[before:]
                return self._kept(node)
            self._note(node, "decomposed" if len(self.problems) == before else "")
            return results
        if self._export_type.keeps_unknown:
            return self._kept(node)
        self._note(node, "")
        if resolution.refusal is not None:
            raise resolution.refusal
        self.problems.append(Problem(node))
        return None

    def _kept(self, node: Node) -> list[Any]:
        self._note(node, "torch")
        self.kept.append(node)
        return list(emit_torch_node(self.builder, node, [self.resolve(arg) for arg in node.args], self._export_type))

    def _empty(self, value: Value) -> Tensor | None:
        """Return a tensor without elements, or None if its other sizes are unknown.

        Operators and their kernels differ in their treatment of empty tensors, so they do not compute this one.
        """
        assert isinstance(value.type, TensorType) and value.type.sizes is not None
        op, sizes = self.builder, [self.builder.size_of(size) for size in value.type.sizes]
        if all(isinstance(size, int) for size in sizes):
            return op.constant(torch.empty([size for size in sizes if isinstance(size, int)], dtype=value.type.dtype))
        if None in sizes:
            return None
        if op.opset >= 12:  # the length of a slice, as torch computes it, may be negative at small sizes
            known = (isinstance(size, int) or size.is_name for size in value.type.sizes)
            sizes = [size if is_known else op.Max(size, 0) for size, is_known in zip(sizes, known, strict=True)]
        made = op.Expand(op.constant(torch.zeros((), dtype=value.type.dtype)), sizes)
        assert isinstance(made, Tensor)
        return made

    def _note(self, node: Node, by: str) -> None:
        if not self._inside:
            self.lowered.append((node, by))

    def _decomposed(self, node: Node, graph: Graph, refusal: LoweringError | None) -> list[Any]:
        """Lower the decomposition of a node, whose problems become the node's."""
        before, export_type = len(self.problems), self._export_type
        self._export_type = OperatorExportTypes.ONNX  # rather the node is kept than parts of it
        for value, arg in zip(graph.inputs, node.inputs(), strict=True):
            self._env[value] = self._env[arg]
        for inner in graph.walk():
            inner.where = node.where
        self._inside += 1
        try:
            results = self.block(graph)
        finally:
            self._inside, self._export_type = self._inside - 1, export_type
        inside = self.problems[before:]
        if failed := [problem for problem in inside if problem.error is not None]:
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

    def _check(self, node: Node, resolution: Resolution) -> None:
        for value, result in zip(node.outputs, resolution.results or (), strict=True):
            if mismatch := output_mismatch(value, result, shapes=value in self._used, symbols=self._symbols):
                raise LoweringError(f"{resolution.who} {mismatch}")

    def counterparts(self) -> dict[Value, Counterpart]:
        """Name each captured value's ONNX value.

        A small constant is a number or tensor instead of a name.
        """
        found: dict[Value, Counterpart] = {}
        for value, bound in self._env.items():
            if not isinstance(bound, Tensor):
                if isinstance(bound, (bool, int, float)):
                    found[value] = bound
            elif bound.known_value is not None:
                found[value] = str(bound.known_value.name)
            elif bound.const is not None and bound.const.nbytes <= _SMALL:
                found[value] = bound.const
        return found

    def _types(self, node: Node) -> list[str]:
        return [repr(self._env.get(value, value)) for value in node.inputs()]


def _is_empty(value: Value) -> bool:
    """Return whether a value is a tensor without elements for all sizes of the inputs."""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.sizes is None or type_.dtype is None or type_.dtype.is_complex:
        return False
    return 0 in type_.sizes


def output_mismatch(value: Value, result: Any, *, shapes: bool = True, symbols: Set[Dim] = frozenset()) -> str:
    """Describe a certain difference from the captured value, or "", see `differ`."""
    if not isinstance(value.type, TensorType) or result is None:
        return ""
    sizes: Sequence[Dim] | None = ()
    if isinstance(result, Tensor):
        if value.type.dtype is not None and result.inferred_dtype not in (None, value.type.dtype):
            return f"returns {result.known_dtype} where torch returns {value.type.dtype} (%{value.name})"
        sizes = result.shape if shapes else None
    elif not isinstance(result, (bool, int, float)):
        return f"returns {result!r} where torch returns {value}"
    if shapes and differ(sizes, value.type.sizes, symbols):
        return f"returns [{', '.join(map(str, sizes or ()))}] where torch returns {value}: another shape"
    return ""
