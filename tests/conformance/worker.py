"""A process that judges samples: tasks come in as JSON lines, results go out as JSON lines.

Whatever a native library does to the process, the parent knows which sample did it: each is announced before it is begun.
Each exporter makes one tiny export before its first sample: what the first export of a process takes is measured by the
benchmarks, as a figure of its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import zlib
from collections.abc import Sequence
from typing import Any

__all__ = ["Task", "in_turn", "key", "main"]


@dataclasses.dataclass(frozen=True)
class Task:
    """Samples of one operator and dtype; `done` are the keys of the results that there are."""

    op: str
    dtype: str
    count: int
    opsets: list[int]
    exporters: list[str]
    done: list[str]


def key(op: str, dtype: str, sample: int, opset: int, exporter: str) -> str:
    """What names one result."""
    return f"{op}|{dtype}|{sample}|{opset}|{exporter}"


def in_turn(op: str, exporters: Sequence[str]) -> list[str]:
    """The exporters, beginning with another one for each operator: the first to meet an operator has torch load what it has of
    it, its tracer's schemas and its kernels' code, and pays for the others."""
    first = zlib.crc32(op.encode()) % len(exporters)
    return [*exporters[first:], *exporters[:first]]


def perform(task: Task, emit: Any) -> None:
    """Judge what is not done yet; `emit` takes a dict for each result, and for each begin of one."""
    from .exporters import warm
    from .judging import Judge
    from .samples import samples

    done = set(task.done)
    for sample in samples(task.op, task.dtype, task.count):
        judge = None
        for exporter in in_turn(task.op, task.exporters):
            for opset in task.opsets:
                named = key(task.op, task.dtype, sample.index, opset, exporter)
                if named in done:
                    continue
                emit({"begin": [task.op, task.dtype, sample.index, opset, exporter]})
                judge = judge or Judge(sample)
                warm(exporter, opset)
                emit(dataclasses.asdict(judge.judge(exporter, opset)))


def main() -> None:
    """Read tasks until the end of the input. Results go to what was the standard output; what others print does not."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        task = Task(**json.loads(line))
        try:
            perform(task, emit)
        except Exception as error:  # noqa: BLE001 - OpInfo itself may fail to make samples
            emit({"trouble": f"{type(error).__name__}: {error}"})
        emit({"end": True})


if __name__ == "__main__":
    main()
