"""The results of a benchmark run, and their storage as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from .exporters import CAPTURE, CHECKED, ONNXEXP, PEERS, TRACE
from .large import LargeResult
from .quantized import QuantizedResult


@dataclasses.dataclass
class ToolResult:
    """The results of one tool on one model.

    Attributes:
        reason: Why the result is excluded; None if it counts.
        first: Seconds of the first export in the process.
        samples: Seconds of the later exports (of the first, if it is the only one); for short exports from several processes.
        captures: Seconds of torch.export.export alone, called before each sample.
        stages: Median seconds by stage, if the tool reports them.
        growth: Growth of the peak resident memory in bytes.
        weights: Bytes of the model's parameters and buffers.
        operators: Nodes by operator.
        file: Bytes of the file and its external data.
        error: The largest error relative to eager's largest value.
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
        """The median seconds of an export."""
        return statistics.median(self.samples)

    def add(self, other: ToolResult) -> None:
        """Add the samples of another process."""
        self.reason = other.reason
        self.samples += other.samples
        self.captures += other.captures

    @property
    def capture_seconds(self) -> float | None:
        """The median seconds of torch.export alone in the same process."""
        return statistics.median(self.captures) if self.captures else None

    @property
    def constants(self) -> int:
        """The number of Constant nodes, which compute nothing."""
        return self.operators.get("Constant", 0)

    @property
    def nodes(self) -> int:
        """The number of all other nodes."""
        return sum(self.operators.values()) - self.constants

    @property
    def latency(self) -> float:
        """The seconds of a run: the median of the processes' medians."""
        return statistics.median(statistics.median(samples) for samples in self.latencies)

    def latency_ratio(self, peer: ToolResult) -> float:
        """Return the median ratio of this latency to the peer's, over the processes."""
        return statistics.median(self.latency_ratios(peer))

    def latency_ratios(self, peer: ToolResult) -> list[float]:
        """Return the ratio of this latency to the peer's, by process."""
        pairs = zip(self.latencies, peer.latencies, strict=True)
        return [statistics.median(own) / statistics.median(other) for own, other in pairs]


@dataclasses.dataclass
class ModelResult:
    """The results of all tools on one model.

    Attributes:
        name: The model.
        tools: The results by tool.
        control: Latencies of a second session of onnxexp's own file, by process.
    """

    name: str
    tools: dict[str, ToolResult]
    control: list[list[float]] = dataclasses.field(default_factory=list)

    @property
    def onnxexp(self) -> ToolResult:
        """The result of onnxexp."""
        return self.tools[ONNXEXP]

    @property
    def trace(self) -> ToolResult | None:
        """The result of onnxexp through torch.jit.trace, or None if it is excluded."""
        return self._unless_excluded(TRACE)

    @property
    def checked_trace(self) -> ToolResult | None:
        """The result of `trace` with a second trace at other sizes, or None."""
        return self._unless_excluded(CHECKED)

    def _unless_excluded(self, tool: str) -> ToolResult | None:
        found = self.tools.get(tool)
        return found if found is not None and found.reason is None else None

    @property
    def capture(self) -> ToolResult:
        """The result of torch.export.export alone."""
        return self.tools[CAPTURE]

    @property
    def peers(self) -> dict[str, ToolResult]:
        """The results of the peers that are not excluded."""
        return {name: self.tools[name] for name in PEERS if name in self.tools and self.tools[name].reason is None}


@dataclasses.dataclass
class Run:
    """One run: the machine, the settings, the models, the cost of plugins in ms.

    The other fields are the quantized models, the microseconds per call of a C++ operator by caller, the cost of checks by
    model, the large models, the tokens per second by threads, context and cache, the shares of operators in that time by file,
    and the ratios of ONNX Runtime's own operators to others.
    """

    machine: dict[str, str]
    settings: dict[str, Any]
    models: list[ModelResult]
    platform: dict[str, float] = dataclasses.field(default_factory=dict)
    quantized: list[QuantizedResult] = dataclasses.field(default_factory=list)
    bridge: dict[str, float] = dataclasses.field(default_factory=dict)
    checking: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    large: list[LargeResult] = dataclasses.field(default_factory=list)
    decoding: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    decoding_shares: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    contrib_operators: dict[str, float] = dataclasses.field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the run as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @staticmethod
    def load(path: Path) -> Run:
        """Load a run written by `save`."""
        data = json.loads(path.read_text())
        models = [
            ModelResult(item["name"], {name: ToolResult(**tool) for name, tool in item["tools"].items()}, item["control"])
            for item in data["models"]
        ]
        quantized = [QuantizedResult(**item) for item in data.get("quantized", [])]
        large = [LargeResult(**item) for item in data.get("large", [])]
        rest = {key: data.get(key, {}) for key in ("bridge", "checking", "decoding", "decoding_shares", "contrib_operators")}
        return Run(data["machine"], data["settings"], models, data.get("platform", {}), quantized, large=large, **rest)
