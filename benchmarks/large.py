"""The memory and the time of exports of large models.

The peers are torch.export and a copy of the weights. The larger model has its parameters on the meta device, and a checkpoint
that is written here. It needs room for twice its weights.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .exporters import ONNXEXP
from .large_models import LARGE, write_checkpoint
from .large_worker import Job

TIME_LIMIT = 1.0
"""The most that an export may take, divided by twice torch.export and a copy of the bytes."""


@dataclasses.dataclass
class LargeResult:
    """The results of one tool on one large model.

    Attributes:
        name, tool: The model and the tool.
        reason: Why there is no result, or None.
        weights: Bytes of the weights.
        seconds: Seconds of the export.
        stages: The same by stage, where the tool reports them.
        capture: Seconds of torch.export.export alone.
        copy: Seconds in which the weights are copied: the checkpoint's files, or memory into a file.
        growth: Growth of the peak resident memory, with the pages of mapped files.
        anonymous: Growth of the peak anonymous memory.
        file: Bytes of the exported files.
    """

    name: str
    tool: str
    reason: str | None = None
    weights: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = dataclasses.field(default_factory=dict)
    capture: float = 0.0
    copy: float = 0.0
    growth: int = 0
    anonymous: int = 0
    file: int = 0

    @property
    def time_ratio(self) -> float:
        """The time of the export ÷ (2 x capture + copy)."""
        return self.seconds / (2 * self.capture + self.copy)

    @property
    def misses(self) -> list[str]:
        """The targets that the export misses, empty for a peer."""
        if self.reason is not None or self.tool != ONNXEXP:
            return []
        limit = LARGE[self.name].limit
        judged = [("memory", self.growth / self.weights, limit), ("time", self.time_ratio, TIME_LIMIT)]
        return [f"{text} {value:.3g} > {limit:g}" for text, value, limit in judged if value > limit]


def measure(
    work: Callable[[str, Any], dict[str, Any]], names: Sequence[str], opset: int, threads: int, folder: Path,
    report: Callable[[str], None],
) -> Iterator[LargeResult]:  # fmt: skip
    """Measure the named models, each tool in a process of its own.

    `work` runs a worker.
    """
    for name in names:
        case = LARGE[name]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            checkpoint, files = Path(scratch) / "checkpoint", Path(scratch) / "files"
            checkpoint.mkdir()
            files.mkdir()
            if shutil.disk_usage(scratch).free < (needed := 2.1 * case.weights):
                yield LargeResult(name, ONNXEXP, f"it needs {needed / 1e9:.0f} GB on the disk of {folder}")
                continue
            if case.hollow:
                report(f"{name}: the checkpoint")
                write_checkpoint(case.make().state_dict(), checkpoint)
            for tool in (ONNXEXP, *case.peers):
                report(f"{name}: {tool}")
                given = str(checkpoint) if case.hollow else None
                job = Job(name, tool, given, str(files), opset, threads, str(Path(scratch) / "result.json"))
                yield LargeResult(name, tool, **work("large_worker", job))
