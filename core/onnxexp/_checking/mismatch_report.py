"""The result of `find_mismatch`, with every captured node beside its ONNX values."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from onnxexp._checking.comparison import Comparison, VerificationReport
from onnxexp._checking.evidence import Evidence
from onnxexp._errors import OptionError, VerificationError
from onnxexp._model.notebook_table import notebook_table
from onnxexp._model.printable_text import one_line
from onnxexp._neutral_graph import Node, Value
from onnxexp._serialize import WriteOptions, save
from onnxexp._serialize.atomic_file import OutputFile, file_errors
from onnxexp._torch_ops.schemas import overload

Status = Literal["ok", "fault", "merged", "unchecked"]


@dataclasses.dataclass(frozen=True, eq=False)
class NodeReport:
    """The comparison of one captured node with its ONNX values.

    Attributes:
        node: The node.
        path: The node's name. For a node of a block or of a decomposition, the names of the nodes around it come first.
        status: "ok"; "fault": torch computes another result from ONNX's inputs of the node; "merged": the ONNX graph has no
            value of its own for the node, and the next node with one covers it; "unchecked": see `note`.
        local: The worst result of the node alone: torch on ONNX's inputs, compared with ONNX.
        total: The worst result of both graphs from their start.
        plugin: The plugin that lowered it, "decomposed" or "core".
        symbolic: The full name of the symbolic.
        merged: The names of the nodes before it that its result covers.
        onnx_nodes: The ONNX nodes of a fault, as ``Mul (name)``.
        note: The reason why it is unchecked, or the iteration of the loop.
        inside: The nodes of its blocks, where it is at fault.
        evidence: A function that collects the smallest part of both graphs with the fault.
        values: For each result: torch's, torch's from ONNX's inputs, and ONNX's. Empty unless requested.
    """

    node: Node
    path: str
    status: Status
    local: Comparison | None = None
    total: Comparison | None = None
    plugin: str = ""
    symbolic: str = ""
    merged: tuple[str, ...] = ()
    onnx_nodes: tuple[str, ...] = ()
    note: str = ""
    inside: tuple[NodeReport, ...] = ()
    evidence: Callable[[], Evidence] | None = dataclasses.field(default=None, repr=False)
    values: tuple[tuple[Any, Any, Any], ...] = dataclasses.field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the node's first result."""
        return self.node.outputs[0].name if self.node.outputs else self.node.op

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def scope(self) -> str:
        return self.node.where.scope

    def innermost(self) -> NodeReport:
        """Return the innermost fault inside, or the node itself."""
        for node in self.inside:
            if node.status == "fault":
                return node.innermost()
        return self

    def __str__(self) -> str:
        lines = [f"%{self.path} = {self.op}" + (f" -> {', '.join(self.onnx_nodes)}" if self.onnx_nodes else "")]
        if self.node.where.file or self.scope:
            lines.append(f"  {self.node.where}")
        if self.symbolic:
            lines.append(f"  lowered by {self.symbolic} (plugin {self.plugin})")
        lines += [f"  {text}" for text in (self.note, self.local.problem if self.local else "") if text]
        if self.merged:
            lines.append(f"  it covers {', '.join(f'%{name}' for name in self.merged)}, which have no value of their own")
        return "\n".join(map(one_line, lines))


@dataclasses.dataclass(frozen=True)
class Origin:
    """The cause of a fault.

    Attributes:
        kind: "symbolic", "pass", "runtime" (ONNX Runtime differs from the specification) or "unknown".
        what: The cause in words.
    """

    kind: Literal["symbolic", "pass", "runtime", "unknown"]
    what: str


@dataclasses.dataclass(frozen=True, eq=False)
class MismatchReport:
    """Every captured node beside its ONNX values, for one call.

    Attributes:
        nodes: The nodes of the captured graph, in order.
        outputs: The program's outputs beside the original's; None without an original.
        origin: The cause of the first fault, or None.
        capture: The difference of the captured graph from the original, or "".
        runtime: The difference of the whole file's outputs from those of its nodes one by one, or "".
        chunk_bytes: The limit of results and weights that were compared at once.
        seconds: The time of the comparison.
    """

    nodes: tuple[NodeReport, ...]
    outputs: VerificationReport | None
    origin: Origin | None
    capture: str
    runtime: str
    chunk_bytes: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether all nodes and all outputs agree."""
        return not (self.faults or self.capture or self.runtime) and (self.outputs is None or self.outputs.ok)

    @property
    def faults(self) -> list[NodeReport]:
        """The nodes at fault, in order.

        Each of them is wrong by itself, not because of a node before it.
        """
        return [each for each in self.nodes if each.status == "fault"]

    @property
    def first(self) -> NodeReport | None:
        """The first node at fault, the innermost one of a block or decomposition."""
        return self.faults[0].innermost() if self.faults else None

    @property
    def worst(self) -> NodeReport | None:
        """The node with the largest absolute error, or None where all are equal."""
        measured = [each for each in self.nodes if each.total is not None and each.total.max_abs > 0]
        return max(measured, key=lambda each: each.total.max_abs if each.total else 0.0, default=None)

    def growth(self) -> list[tuple[str, float, float]]:
        """List the errors along the graph, node by node.

        Each entry has a name, the largest absolute error of both graphs from their start, and that of the node alone.
        """
        return [(each.name, each.total.max_abs, each.local.max_abs if each.local else 0.0) for each in self.nodes if each.total]

    def by_module(self) -> dict[str, tuple[int, float, float]]:
        """Group the errors by module.

        Each entry has the number of nodes, the largest absolute error of a node alone, and the error of the last node.
        """
        return self._grouped(lambda each: each.scope)

    def by_operator(self) -> dict[str, tuple[int, float, float]]:
        """Group the errors by operator, in entries like those of `by_module`."""
        return self._grouped(lambda each: each.op)

    def export_repro(self, folder: str | os.PathLike[str], fault: NodeReport | None = None) -> Path:
        """Write a fault as a script that runs by itself.

        The script has the ONNX nodes and the torch call, with their inputs and results.

        Args:
            folder: The folder for ``repro.py``, ``model.onnx`` and ``data.pt``; made where it does not exist.
            fault: One of `faults` or of the nodes inside; the first where None.

        Returns the script's path.

        Raises OptionError where there is no fault.
        """
        fault = fault or self.first
        if fault is None or fault.evidence is None:
            raise OptionError("there is no fault to write a script of: choose one of report.faults")
        return write_repro(fault.evidence(), str(fault), Path(folder))

    def raise_for_difference(self) -> None:
        """Raise VerificationError with the text of this report, if something differs."""
        if not self.ok:
            raise VerificationError(str(self))

    def _grouped(self, key: Callable[[NodeReport], str]) -> dict[str, tuple[int, float, float]]:
        groups: dict[str, tuple[int, float, float]] = {}
        for node in self.nodes:
            count, local, total = groups.get(key(node), (0, 0.0, 0.0))
            local = max(local, node.local.max_abs if node.local else 0.0)
            groups[key(node)] = count + 1, local, node.total.max_abs if node.total else total
        return groups

    def __str__(self) -> str:
        return "\n".join(map(one_line, self._lines()))

    def _repr_html_(self) -> str:
        errors = {id(node): node.total.max_abs for node in self.nodes if node.total}
        compared = sorted((node for node in self.nodes if id(node) in errors), key=lambda node: -errors[id(node)])
        shown = list({id(node): node for node in (*self.faults, *compared)}.values())[:10]
        rows = [
            (f"%{node.path}", node.op, node.status, f"{errors[id(node)]:.3g}" if id(node) in errors else "", node.node.where)
            for node in shown
        ]
        title = f"{len(self.faults)} of {len(self.nodes)} captured nodes differ; the largest errors:"
        return notebook_table(title, ("node", "operator", "result", "max abs error", "line"), rows, str(self))

    def _lines(self) -> Iterator[str]:
        merged, unchecked = self._of_status("merged"), self._of_status("unchecked")
        others = f", {len(merged)} share the value of a later one" if merged else ""
        others += f", {len(unchecked)} could not be compared" if unchecked else ""
        if self.faults:
            yield from self._lines_of_faults(self.faults, others)
        else:
            agreeing = len(self._of_status("ok"))
            yield f"no node differs: {agreeing} of {len(self.nodes)} captured nodes agree with ONNX{others}"
            yield from self._line_of_worst()
        yield from (text for text in (self.capture, self.runtime) if text)
        if self.outputs is not None:
            yield from str(self.outputs).splitlines()
        yield from (f"unchecked: %{node.path} = {node.op}: {node.note}" for node in unchecked[:3])

    def _lines_of_faults(self, faults: Sequence[NodeReport], others: str) -> Iterator[str]:
        """Yield the first fault in full, and one line for each of the next five.

        `others` describes the nodes without a comparison of their own.
        """
        title = "1 node computes" if len(faults) == 1 else f"{len(faults)} nodes compute"
        yield f"{title} another value in ONNX than in torch ({len(self.nodes)} captured nodes{others}); the first:"
        yield from str(faults[0].innermost()).splitlines()
        if self.origin is not None:
            yield f"  at fault: {self.origin.what}"
        others_inside = (fault.innermost() for fault in faults[1:6])
        yield from (f"also: %{node.path} = {node.op}  {node.node.where}".rstrip() for node in others_inside)
        if len(faults) > 6:
            yield f"and {len(faults) - 6} more (report.faults)"

    def _line_of_worst(self) -> Iterator[str]:
        """Yield a line for the node with the largest error, if there is an error."""
        if self.worst is not None and self.worst.total is not None:
            total = self.worst.total
            error = f"max abs error {total.max_abs:.3g}, SNR {total.snr:.0f} dB"
            yield f"largest error at %{self.worst.path} ({self.worst.op}): {error}"

    def _of_status(self, status: Status) -> list[NodeReport]:
        return [node for node in self.nodes if node.status == status]


def write_repro(evidence: Evidence, text: str, folder: Path) -> Path:
    """Write ``repro.py``, ``model.onnx`` and ``data.pt`` into a folder.

    The folder is made where it does not exist.

    Returns the script's path.
    """
    with file_errors(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    names = {value: f"v{index}" for index, value in enumerate(evidence.inputs)}
    calls = _calls(evidence, names)
    save(evidence.model, folder / "model.onnx", WriteOptions())
    inputs = {names[value]: tensor for value, tensor in evidence.inputs.items()}
    data = io.BytesIO()
    torch.save({"feeds": dict(evidence.feeds), "inputs": inputs, "expected": list(evidence.expected)}, data)
    OutputFile(folder / "data.pt").write(data.getbuffer())
    if calls is None:
        reference = ['expected = data["expected"]  # torch\'s results; the nodes have blocks, which a script cannot call']
    else:
        loads = [f'{names[value]} = data["inputs"]["{names[value]}"]  # {_comment(value)}' for value in evidence.inputs]
        results = ", ".join(names[output] for output in evidence.outputs)
        calling = [*loads, *calls.splitlines(), f"expected = [{results}]"]
        reference = ["try:", *(f"    {line}" for line in calling), *_UNREGISTERED]
    script = _SCRIPT.format(
        comment="\n".join(f"# {one_line(line)}".rstrip() for line in text.splitlines()), reference="\n".join(reference)
    )
    path = folder / "repro.py"
    OutputFile(path).write(script)
    return path


def _comment(value: Value) -> str:
    return one_line(f"%{value.name}: {value.type}")


def _calls(evidence: Evidence, names: dict[Value, str]) -> str | None:
    """Write the torch calls, a line for each node.

    Returns None if torch has no function for a node, or if a node has blocks.
    """
    lines = []
    for node in evidence.nodes:
        function = overload(node.op)
        if function is None or node.blocks:
            return None
        targets = []
        for output in node.outputs:
            names[output] = f"v{len(names)}"
            targets.append(names[output])
        arguments = ", ".join(_arguments(node, function, names))
        call = f"torch.ops.{function}({arguments})"
        comma = "," if _many(function) and len(targets) == 1 else ""
        where = one_line(str(node.where))
        lines.append(f"{', '.join(targets)}{comma} = {call}  # {where}".rstrip(" #"))
    return "\n".join(lines)


def _arguments(node: Node, function: Any, names: Mapping[Value, str]) -> list[str]:
    """Write every argument of a call that differs from the schema's default."""
    written: list[str] = []
    for formal, arg in zip(function._schema.arguments, node.args, strict=True):
        if formal.has_default_value() and not _values(arg) and arg == formal.default_value:
            continue
        text = _text(arg, names)
        written.append(f"{formal.name}={text}" if formal.kwarg_only or len(written) < _position(function, formal) else text)
    return written


def _position(function: Any, formal: Any) -> int:
    return [each.name for each in function._schema.arguments].index(formal.name)


def _many(function: Any) -> bool:
    returns = function._schema.returns
    return len(returns) > 1 or (len(returns) == 1 and str(returns[0].type).startswith("List["))


def _values(arg: Any) -> bool:
    return any(isinstance(each, Value) for each in pytree.tree_leaves(arg))


def _text(arg: Any, names: Mapping[Value, str]) -> str:
    if isinstance(arg, Value):
        return names[arg]
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(_text(each, names) for each in arg)}]"
    if (isinstance(arg, float) and arg != arg) or arg in (float("inf"), float("-inf")):
        return f'float("{arg}")'
    return f"torch.device({str(arg)!r})" if isinstance(arg, torch.device) else repr(arg)


_UNREGISTERED = [
    "except AttributeError:  # a custom operator: import the module that registers it to run it here",
    '    expected = data["expected"]  # torch\'s results in the run that found the fault',
]

_SCRIPT = '''{comment}
"""Run one fault in torch and in ONNX Runtime: python repro.py"""

from pathlib import Path

import onnxruntime
import torch

folder = Path(__file__).parent
data = torch.load(folder / "data.pt")

{reference}

session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
feeds = {{name: tensor.numpy() if isinstance(tensor, torch.Tensor) else tensor for name, tensor in data["feeds"].items()}}
results = session.run(None, feeds)
for output, torch_result, onnx_result in zip(session.get_outputs(), expected, results):
    one, other = torch.as_tensor(torch_result), torch.as_tensor(onnx_result)
    same = one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    error = (one.double() - other.double()).abs().max().item() if one.shape == other.shape and one.numel() else "?"
    print(f"{{output.name}}: {{'equal' if same else 'DIFFERENT'}}, max abs error {{error}}")
    print(f"  torch: {{tuple(one.shape)}} {{one.flatten()[:6].tolist()}}")
    print(f"  ONNX:  {{tuple(other.shape)}} {{other.flatten()[:6].tolist()}}")
'''
