"""Quantized models: measurements, ratios and verdicts.

All files of a model run in one process, in turns: onnxexp's export of the float model, its export of the quantized model, and
torch.onnx's. A file counts only if ONNX Runtime takes it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .exporters import PEERS
from .quantized_models import QUANTIZED
from .quantized_worker import FLOAT, OWN, Job

_LARGEST_ERROR = 0.05
"""The largest accepted error relative to the output's largest value: two steps of 8 bits, with some room for the layers."""


@dataclasses.dataclass
class QuantizedResult:
    """The results on one model.

    Attributes:
        name: The model.
        files: By tool, a file's bytes, latency in seconds and error; or the reason why it is missing.
        reason: Why nothing was measured; None if it was.
    """

    name: str
    files: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    reason: str | None = None

    def figure(self, tool: str, name: str) -> float | None:
        """Return a figure of one tool, or None if it is missing."""
        value = self.files.get(tool, {}).get(name)
        return None if value is None else float(value)

    def ratio(self, name: str, peer: str) -> float | None:
        """Divide onnxexp's figure by that of a peer or of the float model."""
        own, other = self.figure(OWN, name), self.figure(peer, name)
        return None if own is None or other is None else own / other

    @property
    def latency_over_best(self) -> float | None:
        """The latency divided by that of the faster peer."""
        ratios = [ratio for peer in PEERS if (ratio := self.ratio("latency", peer)) is not None]
        return max(ratios, default=None)

    @property
    def misses(self) -> list[str]:
        """The targets that the model misses."""
        case = QUANTIZED[self.name]
        if self.reason is not None:
            return []
        judged = [
            ("latency ÷ float", self.ratio("latency", FLOAT), case.latency),
            ("latency ÷ better", self.latency_over_best, 1.03),
            ("file ÷ float", self.ratio("file", FLOAT), case.size),
            ("error", self.figure(OWN, "error"), _LARGEST_ERROR),
        ]
        missed = [f"{text} {value:.3g} > {limit:g}" for text, value, limit in judged if value and limit and value > limit]
        return missed + ([self.files[OWN]["reason"]] if "reason" in self.files.get(OWN, {}) else [])


def measure(
    work: Callable[[str, Any], dict[str, Any]], seconds: float, rounds: int, report: Callable[[str], None]
) -> Iterable[QuantizedResult]:
    """Measure each model in a process of its own.

    `work` runs a worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, case in QUANTIZED.items():
            if not case.possible:
                yield QuantizedResult(name, reason=f"{case.needs} is not installed")
                continue
            report(name)
            found = work("quantized_worker", Job(name, seconds, rounds, str(Path(folder) / "result.json")))
            yield QuantizedResult(name, found.get("files", {}), found.get("reason"))
