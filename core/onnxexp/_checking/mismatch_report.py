"""The result of `find_mismatch`, with every captured node beside its ONNX values."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from onnxexp._checking.comparison import Comparison, VerificationReport
from onnxexp._checking.evidence import Evidence
from onnxexp._checking.repro import write_repro
from onnxexp._errors import OptionError, VerificationError
from onnxexp._model.printable_text import one_line
from onnxexp._neutral_graph import Node

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
