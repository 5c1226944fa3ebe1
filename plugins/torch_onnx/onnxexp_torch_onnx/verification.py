"""The names of ``torch.onnx.verification``."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp import VerificationError
from onnxexp.checking import MismatchReport, NodeReport, compare, run_eager
from onnxexp.checking import find_mismatch as compare_nodes
from onnxexp.commands import OutputFile
from onnxexp_torch_onnx.export_state import training_mode
from onnxexp_torch_onnx.exporting import export
from onnxexp_torch_onnx.quantized_inputs_and_outputs import quantized_as_parts, with_quantized_parts
from onnxexp_torch_onnx.registry import registered
from onnxexp_torch_onnx.settings import settings
from onnxexp_torch_onnx.verification_info import VerificationInfo, verify_onnx_program

__all__ = [
    "GraphInfo",
    "OnnxBackend",
    "VerificationInfo",
    "VerificationOptions",
    "find_mismatch",
    "verify",
    "verify_onnx_program",
]


class OnnxBackend(enum.Enum):
    """The runtime for the exported model."""

    REFERENCE = "ONNXReferenceEvaluator"
    ONNX_RUNTIME_CPU = "CPUExecutionProvider"
    ONNX_RUNTIME_CUDA = "CUDAExecutionProvider"


@dataclasses.dataclass
class VerificationOptions:
    """Options of `verify`.

    Attributes:
        flatten: Compare nested outputs leaf by leaf; False if the model returns tensors only.
        ignore_none: Do not compare None among the outputs.
        check_shape, check_dtype: Compare shapes and dtypes.
        backend: The runtime: ONNX Runtime, or onnx's reference evaluator.
        rtol, atol: The tolerances.
        remained_onnx_input_idx: The indices of the ONNX model's inputs; None takes them from the model.
        acceptable_error_percentage: The share of elements (0 to 1) that may differ.
    """

    flatten: bool = True
    ignore_none: bool = True
    check_shape: bool = True
    check_dtype: bool = True
    backend: OnnxBackend = OnnxBackend.ONNX_RUNTIME_CPU
    rtol: float = 1e-3
    atol: float = 1e-7
    remained_onnx_input_idx: Sequence[int] | None = None
    acceptable_error_percentage: float | None = None


def verify(
    model: Any,
    input_args: Any,
    input_kwargs: Mapping[str, Any] | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    training: Any = None,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool = True,
    verbose: bool = False,
    fixed_batch_size: bool = False,
    use_external_data: bool = False,
    additional_test_inputs: Sequence[Any] | None = None,
    options: VerificationOptions | None = None,
    **more: Any,
) -> None:
    """Export a model and compare its results with the original's.

    The inputs are the example and `additional_test_inputs`.

    `use_external_data` and `fixed_batch_size` have no effect: no file is written, and a model without dynamic axes has a fixed
    batch size. `more` are arguments of `export`.

    Raises VerificationError, an AssertionError, if they differ, and what `export` raises.
    """
    options = options or VerificationOptions()
    program = export(
        model, input_args, None, verbose=verbose, training=training, input_names=input_names, output_names=output_names,
        opset_version=opset_version, do_constant_folding=do_constant_folding, dynamic_axes=dynamic_axes, kwargs=input_kwargs,
        **more,
    )  # fmt: skip
    first = (input_args if isinstance(input_args, tuple) else (input_args,), dict(input_kwargs or {}))
    others: list[Any] = [(args if isinstance(args, tuple) else (args,), {}) for args in additional_test_inputs or ()]
    for args, kwargs in [first, *others]:
        if args and isinstance(args[-1], dict) and not kwargs:
            args, kwargs = args[:-1], args[-1]
        assert program.eager is not None
        capture = more.get("capture", "auto")
        _, args, kwargs = with_quantized_parts(model, capture, args, kwargs)
        with quantized_as_parts(model, capture):
            expected = run_eager(program.eager, args, kwargs)
        run = program.call_reference if options.backend is OnnxBackend.REFERENCE else program
        actual = program.signature.unflatten(run(*args, **kwargs), program.signature.flatten(args, kwargs))
        _check(pytree.tree_leaves(expected), pytree.tree_leaves(actual), options)


def _check(expected: list[Any], actual: list[Any], options: VerificationOptions) -> None:
    if options.ignore_none:
        expected, actual = ([each for each in leaves if each is not None] for leaves in (expected, actual))
    if len(expected) != len(actual):
        raise VerificationError(f"the original returns {len(expected)} values, the exported model {len(actual)}")
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if not options.check_dtype:
                other = other.to(one.dtype)
            if not options.check_shape and one.numel() == other.numel():
                other = other.reshape(one.shape)
        report = compare(one, other, [f"output {number}"], rtol=options.rtol, atol=options.atol)
        if not report.ok and not _acceptable(one, other, options):
            report.raise_for_difference()


def _acceptable(one: Any, other: Any, options: VerificationOptions) -> bool:
    """Return whether the share of elements that differ is within the limit."""
    if options.acceptable_error_percentage is None or not isinstance(one, torch.Tensor) or one.shape != other.shape:
        return False
    off = ~torch.isclose(one, other, rtol=options.rtol, atol=options.atol, equal_nan=True)
    return float(off.float().mean()) <= options.acceptable_error_percentage


@dataclasses.dataclass
class GraphInfo:
    """A range of operators, split in halves as long as a result in it differs.

    Attributes:
        graph: Its operators, as `onnxexp._checking.mismatch_report.NodeReport`.
        mismatch_error: The difference of the first operator at fault; None if there is none.
        id: "" for the whole, then "0" for each upper and "1" for each lower half.
        upper_graph_info, lower_graph_info: The halves, if this range has a mismatch and more than one operator.
        model: The ONNX model of the whole.
        input_args: The arguments of the whole.
        params_dict: The parameters of the whole, by name.
        export_options: The options of its export.
    """

    graph: list[NodeReport]
    mismatch_error: AssertionError | None = None
    id: str = ""
    upper_graph_info: GraphInfo | None = None
    lower_graph_info: GraphInfo | None = None
    model: ir.Model | None = dataclasses.field(default=None, repr=False)
    input_args: tuple[Any, ...] = dataclasses.field(default=(), repr=False)
    params_dict: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict, repr=False)
    export_options: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    report: MismatchReport | None = dataclasses.field(default=None, repr=False)

    @property
    def pt_outs(self) -> list[Any]:
        """torch's result of each operator that has a value of its own in ONNX."""
        return [expected for node in self.graph for expected, _, _ in node.values]

    def has_mismatch(self) -> bool:
        """Return whether a result differs."""
        return self.mismatch_error is not None

    def find_mismatch(self, options: Any = None) -> None:
        """Compare again, with the tolerances of a `VerificationOptions`."""
        _split_range(self, _faults(self.graph, options))

    def verify_export(self, options: Any = None) -> tuple[AssertionError | None, ir.Model | None, list[Any], list[Any]]:
        """Compare the operators of this range.

        Returns the first operator's difference or None, the model, and the results of ONNX Runtime and of torch.
        """
        error = next(iter(_faults(self.graph, options).values()), None)
        return error, self.model, [actual for node in self.graph for _, _, actual in node.values], self.pt_outs

    def essential_node_count(self) -> int:
        """Count the operators."""
        return len(self.graph)

    def essential_node_kinds(self) -> set[str]:
        """Return the kinds of operators."""
        return {node.op for node in self.graph}

    def all_mismatch_leaf_graph_info(self) -> list[GraphInfo]:
        """List the smallest ranges with a mismatch."""
        return [each for each in self._walk() if each.has_mismatch() and each.upper_graph_info is None]

    def find_partition(self, id: str) -> GraphInfo | None:
        """Find the range with an id, or return None."""
        return next((each for each in self._walk() if each.id == id), None)

    def _walk(self) -> Iterator[GraphInfo]:
        yield self
        for half in (self.upper_graph_info, self.lower_graph_info):
            if half is not None:
                yield from half._walk()

    def tree_text(self) -> str:
        """Format the halves as a tree, and mark those with a mismatch."""
        lines = []
        for each in self._walk():
            mark = "x" if each.has_mismatch() else "ok"
            kinds = Counter(node.op for node in each.graph)
            shown = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in kinds.most_common(3))
            lines.append(f"{'  ' * len(each.id)}{mark} id:{each.id} {len(each.graph)} operators ({shown})")
        return "\n".join(lines)

    def mismatch_text(self, graph: bool = False) -> str:
        """Format the differences by the smallest ranges.

        `graph` adds all operators of this range.
        """
        if not self.has_mismatch():
            return "nothing differs"
        parts = []
        for leaf in self.all_mismatch_leaf_graph_info():
            parts += [f"id:{leaf.id} {node.op} (%{node.name}) {node.node.where}".rstrip() for node in leaf.graph]
            parts.append(f"  {leaf.mismatch_error}")
        if graph:
            parts += [f"  {node.node!r}" for node in self.graph]
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
        """Write the first operator at fault as a script, else the model alone.

        Returns the path of the folder.
        """
        folder = Path(repro_dir or Path.cwd()) / "onnxexp_repro" / (name or f"mismatch_{self.id or 'whole'}")
        folder.mkdir(parents=True, exist_ok=True)
        faulty = next((node for node in self.graph if node.evidence is not None), None)
        if self.report is not None and faulty is not None:
            self.report.export_repro(folder, faulty)
        elif self.model is not None:
            OutputFile(folder / "model.onnx").write(ir.to_proto(self.model).SerializeToString())
        OutputFile(folder / "mismatch.txt").write(self.mismatch_text(graph=True))
        return str(folder)

    def clear(self) -> None:
        """Drop the halves and the results."""
        self.upper_graph_info = self.lower_graph_info = self.model = self.mismatch_error = self.report = None
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

    An operator is at fault if torch computes another result than ONNX Runtime from the inputs that ONNX Runtime has. Therefore,
    every wrong operator is found, not only the first. `options` is a `VerificationOptions`; only its tolerances are used.

    Raises what `onnxexp.export` raises.
    """
    mode = training_mode(training)
    symbols = registered()
    chosen = [symbols.symbolics, *(plugins if plugins is not None else [...])]
    args, kwargs = _split_arguments(input_args)
    asked: dict[str, Any] = {"opset_version": opset_version, "do_constant_folding": do_constant_folding, "training": mode}
    with settings(python_ops=symbols.python_ops):
        program = onnxexp.export(model, args, kwargs=kwargs, plugins=chosen, **asked)
    report = compare_nodes(program, args, kwargs, keep_values=True)
    holder = model if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)) else None
    info = GraphInfo(
        list(report.nodes),
        model=program.model,
        input_args=(*args, *kwargs.values()),
        params_dict=dict(holder.state_dict() if isinstance(holder, torch.nn.Module) else holder.state_dict if holder else {}),
        export_options=asked,
        report=report,
    )
    info.find_mismatch(options)
    if verbose:
        info.pretty_print_tree(verbose)
        info.pretty_print_mismatch(verbose=verbose)
    return info


def _split_arguments(input_args: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split the arguments into positional and keyword arguments.

    A dict at the end of a tuple contains the keyword arguments.
    """
    args = input_args if isinstance(input_args, tuple) else (input_args,)
    return (args[:-1], args[-1]) if args and isinstance(args[-1], dict) else (args, {})


def _faults(nodes: Sequence[NodeReport], options: Any) -> dict[str, AssertionError]:
    """Collect the errors of the nodes at fault, by name."""
    rtol, atol = (None, None) if options is None else (options.rtol, options.atol)
    faults = {}
    for node in nodes:
        for _, expected, actual in node.values if node.status != "unchecked" else ():
            report = compare(expected, actual, [node.name], rtol=rtol, atol=atol)
            if not report.ok:
                faults[node.name] = AssertionError(f"{node.name}: {report.outputs[0].problem}")
    return faults


def _split_range(info: GraphInfo, faults: Mapping[str, AssertionError]) -> None:
    """Split a range in halves as long as it has one of these faults."""
    nodes = info.graph
    info.mismatch_error = next((faults[node.name] for node in nodes if node.name in faults), None)
    info.upper_graph_info = info.lower_graph_info = None
    if info.mismatch_error is None or len(nodes) < 2:
        return
    middle = len(nodes) // 2
    info.upper_graph_info = dataclasses.replace(info, graph=nodes[:middle], id=f"{info.id}0")
    info.lower_graph_info = dataclasses.replace(info, graph=nodes[middle:], id=f"{info.id}1")
    for half in (info.upper_graph_info, info.lower_graph_info):
        _split_range(half, faults)
