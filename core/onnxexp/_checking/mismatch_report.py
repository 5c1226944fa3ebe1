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
    """One captured node.

    Attributes:
        node: The node.
        path: Its name; after those of the nodes that it is part of, for a node of a block or of a decomposition.
        status: "ok"; "fault": ONNX's inputs of the node give another result in torch; "merged": the ONNX graph has no value
            of its own for it, and the next node with one covers it; "unchecked": see `note`.
        local: The worst result of the node alone: torch on ONNX's inputs, beside ONNX.
        total: The worst result of both graphs from their start.
        plugin: The plugin that lowered it, "decomposed" or "core".
        symbolic: The full name of the symbolic.
        merged: The names of the nodes before it that its result covers.
        onnx_nodes: The ONNX nodes of a fault, as ``Mul (name)``.
        note: The reason why it is unchecked, or the iteration of the loop.
        inside: The nodes of its blocks, where it is at fault.
        evidence: Gathers the smallest part of both graphs that shows the fault.
        values: For each result torch's own, torch's on ONNX's inputs, and ONNX's; kept on demand only.
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
        inner = next((each for each in self.inside if each.status == "fault"), None)
        return self if inner is None else inner.innermost()

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
    """The origin of a fault.

    Attributes:
        kind: "symbolic", "pass", "runtime" (ONNX Runtime differs from the specification) or "unknown".
        what: The origin in words.
    """

    kind: Literal["symbolic", "pass", "runtime", "unknown"]
    what: str


@dataclasses.dataclass(frozen=True, eq=False)
class MismatchReport:
    """Every captured node beside its ONNX values, for one call.

    Attributes:
        nodes: The nodes of the captured graph, in order.
        outputs: The program's outputs beside the original's; None without an original.
        origin: The origin of the first fault, or None.
        capture: The difference of the captured graph from the original, or "".
        runtime: The difference of the whole file's outputs from those of its nodes one by one, or "".
        chunk_bytes: The limit of results and weights that were compared at once.
        seconds: The time that it took.
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
        for each in self.nodes:
            count, local, total = groups.get(key(each), (0, 0.0, 0.0))
            local = max(local, each.local.max_abs if each.local else 0.0)
            groups[key(each)] = count + 1, local, each.total.max_abs if each.total else total
        return groups

    def __str__(self) -> str:
        return "\n".join(map(one_line, self._lines()))

    def _lines(self) -> Iterator[str]:
        counts = {status: sum(each.status == status for each in self.nodes) for status in ("ok", "merged", "unchecked")}
        shared = f", {counts['merged']} share the value of a later one" if counts["merged"] else ""
        unknown = f", {counts['unchecked']} could not be compared" if counts["unchecked"] else ""
        faults = self.faults
        if not faults:
            yield f"no node differs: {counts['ok']} of {len(self.nodes)} captured nodes agree with ONNX{shared}{unknown}"
            if self.worst is not None and self.worst.total is not None:
                total = self.worst.total
                error = f"max abs error {total.max_abs:.3g}, SNR {total.snr:.0f} dB"
                yield f"largest error at %{self.worst.path} ({self.worst.op}): {error}"
        else:
            title = "1 node computes" if len(faults) == 1 else f"{len(faults)} nodes compute"
            yield f"{title} another value in ONNX than in torch ({len(self.nodes)} captured nodes{shared}{unknown}); the first:"
            yield from str(faults[0].innermost()).splitlines()
            if self.origin is not None:
                yield f"  at fault: {self.origin.what}"
            yield from (f"also: %{each.innermost().path} = {each.op}  {each.node.where}".rstrip() for each in faults[1:6])
            if len(faults) > 6:
                yield f"and {len(faults) - 6} more (report.faults)"
        yield from (f"{text}" for text in (self.capture, self.runtime) if text)
        if self.outputs is not None:
            yield from str(self.outputs).splitlines()
        yield from (f"unchecked: %{each.path} = {each.op}: {each.note}" for each in _first(self.nodes, "unchecked", 3))


def _first(nodes: Sequence[NodeReport], status: str, count: int) -> list[NodeReport]:
    return [each for each in nodes if each.status == status][:count]
