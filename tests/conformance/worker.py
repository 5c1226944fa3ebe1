"""A worker process: read tasks as JSON lines, judge samples, write results.

Each sample is announced before it starts, so that the parent can attribute a crash of the process. Each exporter runs one tiny
export before its first sample; the benchmarks measure the time of a first export.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import zlib
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Task:
    """Samples of one operator and dtype; `done` has the keys of existing results."""

    op: str
    dtype: str
    count: int
    opsets: list[int]
    exporters: list[str]
    done: list[str]


def key(op: str, dtype: str, sample: int, opset: int, exporter: str) -> str:
    """Return the key of a result."""
    return f"{op}|{dtype}|{sample}|{opset}|{exporter}"


def in_turn(op: str, exporters: Sequence[str]) -> list[str]:
    """Rotate the exporters by operator.

    torch loads an operator's schemas and kernels at its first use, so the first exporter takes longer than the others.
    """
    first = zlib.crc32(op.encode()) % len(exporters)
    return [*exporters[first:], *exporters[:first]]


def perform(task: Task, emit: Any) -> None:
    """Judge the samples that have no result yet.

    The function calls `emit` with a dict at the start of each judgement, and with its result.
    """
    from .exporters import warm
    from .judging import Judge
    from .parts import part_of

    done = set(task.done)
    for sample in part_of(task.op).samples(task.op, task.dtype, task.count):
        judge = None
        for exporter in in_turn(task.op, task.exporters):
            for opset in task.opsets:
                if key(task.op, task.dtype, sample.index, opset, exporter) in done:
                    continue
                emit({"begin": [task.op, task.dtype, sample.index, opset, exporter]})
                judge = judge or Judge(sample)
                warm(exporter, opset)
                emit(dataclasses.asdict(judge.judge(exporter, opset)))


def main() -> None:
    """Read tasks until standard input ends.

    Results go to the original standard output, and all other output to stderr.
    """
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
        except Exception as error:  # noqa: BLE001 - OpInfo itself may fail to create samples
            emit({"trouble": f"{type(error).__name__}: {error}"})
        emit({"end": True})


if __name__ == "__main__":
    main()
