"""`find_mismatch`: find the operators whose results differ in the exported model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch._export.converter import TS2EPConverter
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp import CaptureError, TrainingMode
from onnxexp.capture.torch_state import model_mode, torch_mode
from onnxexp.checking.comparison import compare
from onnxexp.program.onnxruntime_session import Session
from onnxexp_torch_onnx.export_state import training_mode
from onnxexp_torch_onnx.registry import registered
from onnxexp_torch_onnx.settings import settings

__all__ = ["GraphInfo", "find_mismatch"]


@dataclasses.dataclass(frozen=True)
class Step:
    """One captured operator, with its results in torch and in ONNX Runtime.

    Attributes:
        name: The name of its result, in the captured program and in the ONNX graph.
        kind: The operator.
        inputs: The names of the steps that it reads from.
        expected, actual: The results of torch and of ONNX Runtime; `actual` is None if the ONNX graph has no value of this name
            (several operators became one).
        recomputed: torch's result on ONNX Runtime's inputs of this operator; None if torch fails on them.
        where: The user's line.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    expected: Any = dataclasses.field(repr=False)
    actual: Any = dataclasses.field(repr=False)
    recomputed: Any = dataclasses.field(default=None, repr=False)
    where: str = ""


@dataclasses.dataclass
class GraphInfo:
    """A range of operators, split in halves as long as a result in it differs.

    Attributes:
        graph: Its operators.
        mismatch_error: The difference of the first operator at fault; None if there is none.
        id: "" for the whole, then "0" for each upper and "1" for each lower half.
        upper_graph_info, lower_graph_info: The halves, if this range has a mismatch and more than one operator.
        model: The ONNX model of the whole.
        input_args: The arguments of the whole.
        params_dict: The parameters of the whole, by name.
        export_options: The options of its export.
    """

    graph: list[Step]
    mismatch_error: AssertionError | None = None
    id: str = ""
    upper_graph_info: GraphInfo | None = None
    lower_graph_info: GraphInfo | None = None
    model: ir.Model | None = dataclasses.field(default=None, repr=False)
    input_args: tuple[Any, ...] = dataclasses.field(default=(), repr=False)
    params_dict: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict, repr=False)
    export_options: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def pt_outs(self) -> list[Any]:
        """torch's result of each operator."""
        return [step.expected for step in self.graph]

    def has_mismatch(self) -> bool:
        """Whether a result differs."""
        return self.mismatch_error is not None

    def find_mismatch(self, options: Any = None) -> None:
        """Compare again, with the tolerances of a `VerificationOptions`."""
        _split_range(self, _faults(self.graph, options))

    def verify_export(self, options: Any = None) -> tuple[AssertionError | None, ir.Model | None, list[Any], list[Any]]:
        """Compare the operators of this range.

        Returns the first operator's difference (None if there is none), the model, and the results of ONNX Runtime and of torch.
        """
        error = next(iter(_faults(self.graph, options).values()), None)
        return error, self.model, [step.actual for step in self.graph], self.pt_outs

    def essential_node_count(self) -> int:
        """The number of operators."""
        return len(self.graph)

    def essential_node_kinds(self) -> set[str]:
        """The kinds of operators."""
        return {step.kind for step in self.graph}

    def all_mismatch_leaf_graph_info(self) -> list[GraphInfo]:
        """The smallest ranges with a mismatch."""
        return [each for each in self._walk() if each.has_mismatch() and each.upper_graph_info is None]

    def find_partition(self, id: str) -> GraphInfo | None:
        """The range with an id, None if there is none."""
        return next((each for each in self._walk() if each.id == id), None)

    def _walk(self) -> Iterator[GraphInfo]:
        yield self
        for half in (self.upper_graph_info, self.lower_graph_info):
            if half is not None:
                yield from half._walk()

    def tree_text(self) -> str:
        """The halves as a tree, those with a mismatch marked."""
        lines = []
        for each in self._walk():
            mark = "x" if each.has_mismatch() else "ok"
            kinds = Counter(step.kind for step in each.graph)
            shown = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in kinds.most_common(3))
            lines.append(f"{'  ' * len(each.id)}{mark} id:{each.id} {len(each.graph)} operators ({shown})")
        return "\n".join(lines)

    def mismatch_text(self, graph: bool = False) -> str:
        """The differences by the smallest ranges; `graph` adds the operators around them."""
        if not self.has_mismatch():
            return "nothing differs"
        parts = []
        for leaf in self.all_mismatch_leaf_graph_info():
            parts += [f"id:{leaf.id} {step.kind} (%{step.name}) {step.where}".rstrip() for step in leaf.graph]
            parts.append(f"  {leaf.mismatch_error}")
        if graph:
            parts += [f"  %{step.name} = {step.kind}({', '.join(step.inputs)})" for step in self.graph]
        return "\n".join(parts)

    def pretty_print_tree(self, verbose: bool = True) -> None:
        """Print `tree_text`."""
        if verbose:
            print(self.tree_text())

    def pretty_print_mismatch(self, graph: bool = False, verbose: bool = True) -> None:
        """Print `mismatch_text`."""
        if verbose:
            print(self.mismatch_text(graph))

    def export_repro(self, repro_dir: str | None = None, name: str | None = None) -> str:
        """Write the model and both results of each operator to a folder.

        Returns the folder.
        """
        folder = Path(repro_dir or Path.cwd()) / "onnxexp_repro" / (name or f"mismatch_{self.id or 'whole'}")
        folder.mkdir(parents=True, exist_ok=True)
        if self.model is not None:
            ir.save(self.model, folder / "model.onnx")
        results = {step.name: {"expected": step.expected, "actual": step.actual} for step in self.graph}
        torch.save(results, folder / "results.pt")
        (folder / "mismatch.txt").write_text(self.mismatch_text(graph=True), encoding="utf-8")
        return str(folder)

    def clear(self) -> None:
        """Drop the halves and the results."""
        self.upper_graph_info = self.lower_graph_info = self.model = self.mismatch_error = None
        self.graph = []


def find_mismatch(
    model: Any,
    input_args: Any,
    do_constant_folding: bool = True,
    training: Any = None,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool = True,
    verbose: bool = False,
    options: Any = None,
    *,
    plugins: Sequence[Any] | None = None,
) -> GraphInfo:
    """Find the operators whose results differ between torch and ONNX Runtime.

    An operator is at fault if torch computes another result from ONNX Runtime's inputs of it, so that each wrong operator is
    found, not the first alone. `options` is a `VerificationOptions`; only its tolerances are used. A ScriptModule is converted
    by torch for torch.export.

    Raises what `onnxexp.export` raises.
    """
    mode = training_mode(training)
    symbols = registered()
    packs = [symbols.symbolics, *(plugins if plugins is not None else [...])]
    args, kwargs = _split_arguments(input_args)
    captured = model if isinstance(model, torch.export.ExportedProgram) else _capture(model, args, kwargs, mode)
    asked: dict[str, Any] = {"opset_version": opset_version, "do_constant_folding": do_constant_folding, "training": mode}
    with settings(python_ops=symbols.python_ops):
        program = onnxexp.export(captured, plugins=packs, **asked)
    steps = _steps(captured, program, (*args, *kwargs.values()))
    info = GraphInfo(
        steps,
        model=program.model,
        input_args=(*args, *kwargs.values()),
        params_dict=dict(captured.state_dict),
        export_options=asked,
    )
    info.find_mismatch(options)
    if verbose:
        info.pretty_print_tree(verbose)
        info.pretty_print_mismatch(verbose=verbose)
    return info


def _split_arguments(input_args: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments.

    A dict at the end of a tuple is the keyword arguments.
    """
    args = input_args if isinstance(input_args, tuple) else (input_args,)
    return (args[:-1], args[-1]) if args and isinstance(args[-1], dict) else (args, {})


class _Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _capture(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mode: TrainingMode) -> torch.export.ExportedProgram:
    """Run torch.export in the state of an export. Raises CaptureError."""
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    with torch_mode(), model_mode(module.modules(), mode):
        try:
            if isinstance(model, torch.jit.ScriptModule):
                return TS2EPConverter(model, args, kwargs).convert()
            return torch.export.export(module, args, kwargs, strict=False)
        except Exception as error:  # torch.export may raise anything, the user's own exceptions too
            raise CaptureError(f"torch.export cannot capture the model: {error}") from error


class _ResultRecorder(torch.fx.Interpreter):
    """Runs a program and stores every result."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.results: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self.results[n.name] = result.clone() if isinstance(result, torch.Tensor) else result
        return result


def _steps(captured: torch.export.ExportedProgram, program: onnxexp.ONNXProgram, args: Sequence[Any]) -> list[Step]:
    module = captured.module(check_guards=False)
    recorder = _ResultRecorder(module)
    leaves = pytree.tree_leaves(tuple(args))
    with torch.no_grad():
        recorder.run(*leaves, enable_io_processing=False)
    actual = _intermediate(program, args)
    listed = {name: result for name, result in recorder.results.items() if isinstance(result, (list, tuple))}
    fields = {f"{name}_{index}": each for name, result in listed.items() for index, each in enumerate(result)}
    names = {node.name for node in module.graph.nodes}
    seen = dict(recorder.results)  # ONNX Runtime's results, or torch's from those
    steps: list[Step] = []
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        recomputed = seen[node.name] = _recomputed(node, seen)
        expected = recorder.results.get(node.name)
        if not isinstance(expected, torch.Tensor):
            continue
        inputs = tuple(each.name for each in node.all_input_nodes if each.name in names)
        place = (node.meta.get("stack_trace") or "").strip().splitlines()
        field = next((key for key, value in fields.items() if value is expected), node.name)
        name = node.name if node.name in actual else field
        found = actual.get(name)
        seen[node.name] = recomputed if found is None else found
        line = place[-1].strip() if place else ""
        steps.append(Step(node.name, str(node.target), inputs, expected, found, recomputed, line))
    return steps


def _recomputed(node: torch.fx.Node, seen: Mapping[str, Any]) -> Any:
    """torch's result of a node from these results of others.

    None if torch fails on them.
    """
    copied = {each: pytree.tree_map_only(torch.Tensor, torch.clone, seen[each.name]) for each in node.all_input_nodes}
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), copied.__getitem__)
    assert callable(node.target)
    try:
        with torch.no_grad():
            return node.target(*args, **kwargs)
    except Exception:  # noqa: BLE001 - an operator may raise anything on a result of another shape or dtype
        return None


def _intermediate(program: onnxexp.ONNXProgram, args: Sequence[Any]) -> dict[str, torch.Tensor]:
    """ONNX Runtime's results of every value of the main graph, by name."""
    model = program.model.clone()
    listed = set(model.graph.outputs)
    for node in model.graph:
        for output in node.outputs:
            if output not in listed and output.dtype is not None and isinstance(output.type, ir.TensorType):
                model.graph.outputs.append(output)
    leaves = program.signature.flatten(tuple(args), {})
    feeds = program.signature.feeds(leaves)
    results = Session(model, program.prepare).run({**program.weights, **feeds})
    return {str(value.name): result for value, result in zip(model.graph.outputs, results, strict=True)}


def _faults(steps: Sequence[Step], options: Any) -> dict[str, AssertionError]:
    """The errors of the steps at fault, by name."""
    rtol, atol = (None, None) if options is None else (options.rtol, options.atol)
    faults = {}
    for step in steps:
        if step.actual is None or step.recomputed is None:
            continue
        report = compare(step.recomputed, step.actual, [step.name], rtol=rtol, atol=atol)
        if not report.ok:
            faults[step.name] = AssertionError(f"{step.name}: {report.outputs[0].problem}")
    return faults


def _split_range(info: GraphInfo, faults: Mapping[str, AssertionError]) -> None:
    """Split a range in halves as long as it has one of these faults."""
    steps = info.graph
    info.mismatch_error = next((faults[step.name] for step in steps if step.name in faults), None)
    info.upper_graph_info = info.lower_graph_info = None
    if info.mismatch_error is None or len(steps) < 2:
        return
    middle = len(steps) // 2
    info.upper_graph_info = dataclasses.replace(info, graph=steps[:middle], id=f"{info.id}0")
    info.lower_graph_info = dataclasses.replace(info, graph=steps[middle:], id=f"{info.id}1")
    for half in (info.upper_graph_info, info.lower_graph_info):
        _split_range(half, faults)
