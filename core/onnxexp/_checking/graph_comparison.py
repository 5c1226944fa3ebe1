"""Compare a captured graph with its ONNX graph, node by node, in one run of each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._checking.comparison import Comparison, Tolerances, compare, type_name
from onnxexp._checking.counterparts import Counterparts, as_captured
from onnxexp._checking.evidence import gather, region_inputs
from onnxexp._checking.mismatch_report import NodeReport
from onnxexp._checking.onnx_slices import OpenSession, SlicedRun, boundary, free_values
from onnxexp._checking.reference_session import to_torch
from onnxexp._checking.torch_interpreter import CannotRun, Interpreter, is_random
from onnxexp._model.origins import NodeOrigin
from onnxexp._neutral_graph import Graph, Node, Value, replace_values, values_in


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a comparison.

    The settings include the backend, the tolerances, and the bytes of results and weights that are compared at once.
    """

    open_session: OpenSession
    rtol: float | None = None
    atol: float | None = None
    tolerances: Tolerances | None = None
    chunk_bytes: int = 256 << 20
    keep_values: bool = False

    def compare(self, name: str, expected: Any, actual: Any) -> Comparison:
        """Compare one value; of a list, return the comparison of the worst element."""
        if isinstance(actual, torch.Tensor) and isinstance(expected, (list, tuple)):  # ONNX has a tensor for a list of numbers
            actual = [actual] if pytree.tree_any(lambda one: isinstance(one, torch.Tensor), expected) else actual.tolist()
        wanted, got = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
        if len(wanted) != len(got):
            problem = f"expected {len(wanted)} values, got {len(got)}"
            return Comparison(name, type_name(expected), type_name(actual), problem)
        names = [name] if not isinstance(expected, (list, tuple)) else [f"{name}[{index}]" for index in range(len(wanted))]
        report = compare(wanted, got, names, rtol=self.rtol, atol=self.atol, tolerances=self.tolerances)
        return _worst(report.outputs) or Comparison(name, type_name(expected), type_name(actual))


@dataclasses.dataclass
class GraphComparison:
    """The comparison of one graph, the main one or a block.

    Attributes:
        graph: The captured graph.
        counterparts: The ONNX values of the captured ones.
        open_run: Begins a run of the ONNX graph for this call.
        settings: The settings of the comparison.
        inputs: The values of the captured graph's inputs and of everything around it, by ONNX.
        describe: Makes the report of a node.
        descend: Compares the blocks of a node at fault; returns the reports of their nodes.
        path: The names of the nodes around this graph.
    """

    graph: Graph
    counterparts: Counterparts
    open_run: Callable[[], SlicedRun]
    settings: Settings
    inputs: Mapping[Value, Any]
    describe: Callable[..., NodeReport]
    descend: Callable[[GraphComparison, Node, Mapping[ir.Value, Any], ir.Node], list[NodeReport]] | None = None
    path: str = ""
    torch_outputs: list[Any] = dataclasses.field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._torch, self.run = Interpreter(), self.open_run()
        self._reference: dict[Value, Any] = {**self.inputs, **self.graph.params}
        self._seen: dict[Value, Any] = dict(self._reference)
        self._equal: set[Value] = set(self._reference)
        self._uncovered: dict[Value, tuple[str, ...]] = {}
        self._last = self._last_uses()

    def reports(self) -> Iterator[NodeReport]:
        """Compare every node, in order."""
        pending: list[tuple[Node, list[Any] | None, str]] = []
        size, weights = 0, set[Value]()
        for index, node in enumerate(self.graph.nodes):
            results, note = self._in_torch(node)
            read = {value for value in self._reads(node) if value in self.graph.params}  # the runtime loads them with a chunk
            new = _bytes(results or ()) + self._weight_bytes(read - weights)
            if pending and size + new > self.settings.chunk_bytes:
                yield from self._compare(pending)
                self._free(index - 1)
                pending, weights, size, new = [], set(), 0, new + self._weight_bytes(read & weights)
            pending.append((node, results, note))
            weights |= read
            size += new
            if is_random(node) or results is None:  # after random numbers, torch goes on with ONNX's
                yield from self._compare(pending)
                self._free(index)
                pending, weights, size = [], set(), 0
        yield from self._compare(pending)
        self.torch_outputs = [self._known(output, self._reference) for output in self.graph.outputs]
        self._free(len(self.graph.nodes))

    def _weight_bytes(self, values: Collection[Value]) -> int:
        return _bytes([self.graph.params[value] for value in values])

    def _in_torch(self, node: Node) -> tuple[list[Any] | None, str]:
        """Run a node on torch's own results.

        Returns None and the reason where torch cannot run it.
        """
        try:
            results = self._torch.node(node, self._reference)
        except (CannotRun, KeyError) as error:
            reason = str(error) if isinstance(error, CannotRun) else "torch cannot run a node before it"
            return None, reason
        self._reference.update(zip(node.outputs, results, strict=True))
        return results, ""

    def _compare(self, pending: Sequence[tuple[Node, list[Any] | None, str]]) -> Iterator[NodeReport]:
        wanted: list[ir.Value] = []
        for node, _, _ in pending:
            values = self.counterparts.of(node)
            wanted += values
            if node.blocks and self.descend is not None and (flow := _flow(values)) is not None:
                wanted += free_values(flow)
        found = self.run.values(wanted)
        for node, results, note in pending:
            yield self._report(node, results, note, found)

    def _report(self, node: Node, results: list[Any] | None, note: str, values: Mapping[ir.Value, Any]) -> NodeReport:
        found = [self._actual(output, values) for output in node.outputs]
        expected, problem = self._expected(node, results)
        covered = tuple(dict.fromkeys(name for value in node.inputs() for name in self._uncovered.get(value, ())))
        random = is_random(node)
        local, total, kept, compared = [], [], [], False
        for place, (output, actual) in enumerate(zip(node.outputs, found, strict=True)):
            mine = expected[place] if expected is not None else None
            self._equal.discard(output)
            if actual is _NONE:
                self._seen[output] = mine
                self._uncovered[output] = (*covered, node.outputs[0].name)
                continue
            compared = True
            self._seen[output] = actual
            if random or results is None:
                self._reference[output] = actual
            elif _same(self._reference[output], actual):
                self._equal.add(output)
            else:
                total.append(self.settings.compare(output.name, self._reference[output], actual))
            if self.settings.keep_values:
                kept.append((self._reference[output], mine, actual))
            if expected is not None and not random:
                once = expected is results and output not in self._equal  # both sides had the same inputs: compare once
                local.append(total[-1] if once else self._alone(output.name, mine, actual))
        status, note = _status(compared, random, local, note or problem)
        made = self.describe(
            node, f"{self.path}{node.outputs[0].name if node.outputs else node.op}", status,
            local=_worst(local), total=_worst(total) or _worst(local), merged=covered if compared else (), note=note,
            values=tuple(kept),
        )  # fmt: skip
        return self._inside(made, node, values) if status == "fault" else made

    def _alone(self, name: str, expected: Any, actual: Any) -> Comparison:
        """Compare a result of the node alone, which is usually equal."""
        if _same(expected, actual):
            return Comparison(name, type_name(expected), type_name(actual))
        return self.settings.compare(name, expected, actual)

    def _inside(self, made: NodeReport, node: Node, values: Mapping[ir.Value, Any]) -> NodeReport:
        """Complete the report of a fault with its ONNX nodes and the nodes in its blocks."""
        outputs = self.counterparts.of(node)
        nodes, _ = boundary(outputs, self.counterparts.onnx_values() - set(outputs))
        texts = tuple(f"{each.op_type} ({each.name})" for each in reversed(nodes))
        flow = _flow(outputs) if node.blocks else None
        inside = self.descend(self, node, values, flow) if flow is not None and self.descend is not None else []
        region = [each for each in self.graph.nodes if each is node or (each.outputs and each.outputs[0].name in made.merged)]
        known = {value: self._seen[value] for value in region_inputs(region) if value in self._seen}
        around = {**self.inputs, **self.graph.params}
        evidence = functools.partial(gather, region, self.counterparts, known, self.open_run, around)
        origin = NodeOrigin.of(nodes[0]) if nodes else None
        if origin is not None and origin.symbolic:  # what the file says, which another export may have written
            made = dataclasses.replace(made, plugin=origin.plugin, symbolic=origin.symbolic)
        return dataclasses.replace(made, onnx_nodes=texts, inside=tuple(inside), evidence=evidence)

    def _expected(self, node: Node, results: list[Any] | None) -> tuple[list[Any] | None, str]:
        """Compute torch's results on ONNX's inputs of a node.

        Returns None and the reason where torch cannot compute them.
        """
        if results is not None and all(value in self._equal for value in self._reads(node)):
            return results, ""
        try:
            return self._torch.node(node, self._seen), ""
        except (CannotRun, KeyError) as error:
            return None, str(error) if isinstance(error, CannotRun) else "a node before it has no value"

    def _actual(self, output: Value, values: Mapping[ir.Value, Any]) -> Any:
        """Return ONNX's result of a captured value, or `_NONE` if the ONNX graph lacks it."""
        counterpart = self.counterparts.found.get(output)
        if isinstance(counterpart, ir.Value):
            if counterpart in values:
                return as_captured(output, values[counterpart])
            constant = counterpart.const_value
            return _NONE if constant is None else as_captured(output, to_torch(constant.numpy()))
        return _NONE if counterpart is None else as_captured(output, counterpart)

    def known(self) -> Mapping[Value, Any]:
        """Return all values, computed by ONNX, that are still needed."""
        return self._seen

    def _known(self, output: Any, env: Mapping[Value, Any]) -> Any:
        missing = [value for value in values_in(output) if value not in env]
        return None if missing else replace_values(output, env.__getitem__)

    def _reads(self, node: Node) -> set[Value]:
        return {*node.inputs(), *(value for block in node.blocks for value in _outer_values(block))}

    def _last_uses(self) -> dict[Value, int]:
        last = {}
        for index, node in enumerate(self.graph.nodes):
            for value in self._reads(node):
                last[value] = index
        for output in self.graph.outputs:
            for value in values_in(output):
                last[value] = len(self.graph.nodes)
        return last

    def _free(self, index: int) -> None:
        """Drop the values that no node after this one reads."""
        for env in (self._reference, self._seen):
            for value in [value for value in env if self._last.get(value, -1) <= index and value not in self.inputs]:
                del env[value]


_NONE = object()


def _status(compared: bool, random: bool, local: Sequence[Comparison], note: str) -> tuple[str, str]:
    if random:
        return "unchecked", "random numbers"
    if not compared:
        return "merged", note
    if not local:
        return "unchecked", note
    return ("fault" if any(each.problem for each in local) else "ok"), note


def _worst(comparisons: Sequence[Comparison]) -> Comparison | None:
    return min(comparisons, key=lambda each: (not each.problem, each.snr), default=None)


def _bytes(values: Sequence[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor) and not value.is_sparse)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _flow(values: Sequence[ir.Value]) -> ir.Node | None:
    """Find the If, Loop or Scan that makes these values, through the casts after it."""
    stack = list(values)
    while stack:
        node = stack.pop().producer()
        if node is None:
            continue
        if node.op_type in ("If", "Loop", "Scan"):
            return node
        stack += [value for value in node.inputs if value is not None]
    return None


def _outer_values(block: Graph) -> set[Value]:
    """Return the values that a block reads from outside."""
    own = {*block.inputs, *block.params, *(output for node in block.walk() for output in node.outputs)}
    own |= {value for node in block.walk() for inner in node.blocks for value in inner.inputs}
    read = {value for node in block.walk() for value in node.inputs()}
    read |= {value for output in block.outputs for value in values_in(output)}
    return read - own
