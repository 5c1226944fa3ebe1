"""What was measured, and how it is kept."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from .exporters import CAPTURE, ONNXEXP, PEERS, TRACE


@dataclasses.dataclass
class ToolResult:
    """One tool on one model.

    Attributes:
        reason: Why it does not count; None where it does.
        first: Seconds of the first export in the process.
        samples: Seconds of those after it (of the first, where there was no other); of short exports in several processes.
        captures: Seconds of torch.export.export alone, called before each of the samples.
        stages: Median seconds by stage, where the tool tells them.
        growth: Growth of the resident memory's peak, bytes.
        weights: Bytes of the model's parameters and buffers.
        operators: Nodes by operator.
        file: Bytes of the file and its external data.
        error: Largest error relative to eager's largest value.
        latencies: Seconds per run, by process.
    """

    reason: str | None = None
    first: float = 0.0
    samples: list[float] = dataclasses.field(default_factory=list)
    captures: list[float] = dataclasses.field(default_factory=list)
    stages: dict[str, float] = dataclasses.field(default_factory=dict)
    growth: int = 0
    weights: int = 0
    operators: dict[str, int] = dataclasses.field(default_factory=dict)
    file: int = 0
    error: float = 0.0
    latencies: list[list[float]] = dataclasses.field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median export."""
        return statistics.median(self.samples)

    def add(self, other: ToolResult) -> None:
        """The samples of one more process."""
        self.reason = other.reason
        self.samples += other.samples
        self.captures += other.captures

    @property
    def capture_seconds(self) -> float | None:
        """The median of torch.export alone in the same process."""
        return statistics.median(self.captures) if self.captures else None

    @property
    def constants(self) -> int:
        """Constant nodes, which compute nothing."""
        return self.operators.get("Constant", 0)

    @property
    def nodes(self) -> int:
        """All other nodes."""
        return sum(self.operators.values()) - self.constants

    @property
    def latency(self) -> float:
        """Median seconds of a run: of the processes' medians."""
        return statistics.median(statistics.median(samples) for samples in self.latencies)

    def latency_ratio(self, peer: ToolResult) -> float:
        """This latency over the peer's: the median over the processes, in each of which both ran."""
        pairs = zip(self.latencies, peer.latencies, strict=True)
        return statistics.median(statistics.median(own) / statistics.median(other) for own, other in pairs)


@dataclasses.dataclass
class ModelResult:
    """All tools on one model; `control` is the latency of a second session of onnxexp's own file, `capture` torch.export."""

    name: str
    tools: dict[str, ToolResult]
    control: list[list[float]] = dataclasses.field(default_factory=list)

    @property
    def onnxexp(self) -> ToolResult:
        """Our own result."""
        return self.tools[ONNXEXP]

    @property
    def trace(self) -> ToolResult | None:
        """Our own result through torch.jit.trace; None where it does not count."""
        found = self.tools.get(TRACE)
        return found if found is not None and found.reason is None else None

    @property
    def capture(self) -> ToolResult:
        """torch.export.export alone."""
        return self.tools[CAPTURE]

    @property
    def peers(self) -> dict[str, ToolResult]:
        """The peers that count."""
        return {name: self.tools[name] for name in PEERS if name in self.tools and self.tools[name].reason is None}


@dataclasses.dataclass
class Run:
    """One run of the benchmark: the machine, the settings, the models in order, and what plugins cost (milliseconds)."""

    machine: dict[str, str]
    settings: dict[str, Any]
    models: list[ModelResult]
    platform: dict[str, float] = dataclasses.field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> Run:
        """What `save` wrote."""
        data = json.loads(path.read_text())
        models = [
            ModelResult(item["name"], {name: ToolResult(**tool) for name, tool in item["tools"].items()}, item["control"])
            for item in data["models"]
        ]
        return Run(data["machine"], data["settings"], models, data.get("platform", {}))
