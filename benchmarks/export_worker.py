"""Measure one tool on one model: `python -m benchmarks.export_worker JOB.json`."""

from __future__ import annotations

import dataclasses
import gc
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import exporters, graphs, memory
from .case import BenchCase, weight_bytes
from .models import CASES


@dataclasses.dataclass(frozen=True)
class Job:
    """The job of an export worker.

    Attributes:
        model, tool: The names of the model and the tool.
        path: The ONNX file to write.
        opset: The target opset.
        repeats: The number of timed exports after the first; 0 times the first.
        budget: Seconds after which no further export starts.
        threads: The threads of torch.
        clock: "wall", or "cpu" for processor time, which excludes waiting for disks and other processes.
        captures: Whether to call torch.export.export alone before each timed export.
        arrays: The file for the inputs and eager's outputs; None saves none.
        result: The file for the figures, as JSON.
    """

    model: str
    tool: str
    path: str
    opset: int
    repeats: int
    budget: float
    threads: int
    clock: str
    captures: bool
    arrays: str | None
    result: str


def measure(job: Job, case: BenchCase, model: nn.Module) -> dict[str, Any]:
    """Measure the figures of a job, for `results.ToolResult`."""
    args, clock = case.inputs(case.example), time.process_time if job.clock == "cpu" else time.perf_counter

    def export() -> tuple[float, dict[str, float]]:
        for old in Path(job.path).parent.iterdir():
            old.unlink()  # replacing an existing file takes longer than writing a new one
        start = clock()
        stages = exporters.run(job.tool, model, args, case.axes, job.path, job.opset)
        return clock() - start, stages

    (first, stages), growth = memory.growth(export)
    samples: dict[str, list[float]] = defaultdict(list)
    end = time.perf_counter() + job.budget
    for _ in range(job.repeats):
        if time.perf_counter() > end:
            break
        if job.captures:
            samples["capture"].append(_timed_capture(case, model, args, clock))
        gc.collect()
        seconds, stages = export()
        samples["export"].append(seconds)
        for stage, value in stages.items():
            samples[f"stage:{stage}"].append(value)
    figures = {
        "weights": weight_bytes(model),
        "first": first,
        "samples": samples["export"] or [first],
        "captures": samples["capture"],
        "stages": {key.removeprefix("stage:"): float(np.median(values)) for key, values in samples.items() if ":" in key}
        or stages,
        "growth": growth,
    }
    if job.tool != exporters.CAPTURE:
        figures |= {"operators": dict(graphs.operators(job.path)), "file": graphs.file_bytes(job.path)}
    return figures


def _timed_capture(case: BenchCase, model: nn.Module, args: exporters.Args, clock: Callable[[], float]) -> float:
    gc.collect()
    start = clock()
    exporters.run(exporters.CAPTURE, model, args, case.axes, "", 0)
    return clock() - start


def _warm_up(job: Job) -> None:
    """Export one tiny model, to exclude one-time costs of the process."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with tempfile.TemporaryDirectory() as folder:
        for tool in dict.fromkeys((exporters.CAPTURE, job.tool)):
            exporters.run(tool, model, (torch.ones(2, 4),), ({0: "batch"},), f"{folder}/{tool}.onnx", job.opset)


def _save_arrays(case: BenchCase, model: nn.Module, path: str) -> None:
    """Save inputs and eager's outputs at both sizes, for processes without torch."""
    arrays: dict[str, np.ndarray] = {}
    for label, sizes in (("example", case.example), ("other", case.other)):
        args = case.inputs(sizes)
        with torch.no_grad():
            result = model(*args)
        outputs = result if isinstance(result, tuple) else (result,)
        for kind, tensors in (("in", args), ("out", outputs)):
            arrays |= {f"{label}/{kind}/{index}": tensor.numpy() for index, tensor in enumerate(tensors)}
    np.savez(path, **arrays)


def _plain(message: str) -> str:
    """Remove terminal colours from a message, and shorten it for a table."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", message).split())[:400]


def main() -> None:
    """Run the job in the file given as the only argument.

    A failure of the tool is a result, too.
    """
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    case = CASES[job.model]
    torch.set_num_threads(job.threads)
    _warm_up(job)
    model = case.make()
    try:
        figures = measure(job, case, model)
    except Exception as error:  # noqa: BLE001 - an exporter may raise anything, and the error is its result
        figures = {"reason": f"{type(error).__name__}: {_plain(str(error))}"}
    if job.arrays:
        _save_arrays(case, model, job.arrays)
    Path(job.result).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
