"""Check and time files in ORT: `python -m benchmarks.latency_worker JOB.json`."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

TOLERANCE = 2e-3
"""The largest accepted error, relative to the output's largest value: float32 sums in another order."""
_SHORTEST = 0.002
"""The least duration of a sample in seconds, below which the clock's resolution shows; runs are timed in groups."""


@dataclasses.dataclass(frozen=True)
class Job:
    """The job of a latency worker.

    Attributes:
        files: ONNX files by label.
        arrays: Inputs and eager's outputs, from the export worker.
        threads: ONNX Runtime's threads within an operator.
        seconds: The duration of the sampling.
        rounds: The least number of rounds, regardless of their duration.
        seed: The seed of the order in which files are loaded and run.
        result: The file for the figures, as JSON.
    """

    files: dict[str, str]
    arrays: str
    threads: int
    seconds: float
    rounds: int
    seed: int
    result: str


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A session with its timed arguments, its largest relative error, and a clock."""

    session: Any
    feeds: dict[str, np.ndarray]
    error: float
    clock: Callable[[], float]

    def run(self, times: int = 1) -> float:
        """Return the seconds per run."""
        start = self.clock()
        for _ in range(times):
            self.session.run(None, self.feeds)
        return (self.clock() - start) / times


def load(path: str, arrays: Mapping[str, np.ndarray], threads: int) -> Loaded:
    """Load a session and compare it with eager at both sizes.

    Raises ValueError if the results differ.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    error, feeds = 0.0, {}
    for label in ("example", "other"):
        inputs = _numbered(arrays, f"{label}/in/")
        if len(names) != len(inputs):
            raise ValueError(f"takes {len(names)} inputs, the model {len(inputs)}")
        feeds = dict(zip(names, inputs, strict=True))
        try:
            actual = session.run(None, feeds)
        except Exception as failure:
            raise ValueError(f"does not run at the {label} sizes: {failure}") from failure
        error = max(error, _largest_error(actual, _numbered(arrays, f"{label}/out/"), label))
    # A single thread never waits, so its processor time equals its wall time on an idle machine.
    return Loaded(session, feeds, error, time.process_time if threads == 1 else time.perf_counter)


def _numbered(arrays: Mapping[str, np.ndarray], prefix: str) -> list[np.ndarray]:
    return [arrays[key] for key in sorted((key for key in arrays if key.startswith(prefix)), key=lambda k: int(k[len(prefix) :]))]


def _largest_error(actual: list[np.ndarray], expected: list[np.ndarray], label: str) -> float:
    if [value.shape for value in actual] != [value.shape for value in expected]:
        raise ValueError(f"has shapes {[v.shape for v in actual]} at the {label} sizes, eager {[v.shape for v in expected]}")
    errors = [float(np.abs(a - e).max() / max(np.abs(e).max(), 1e-6)) for a, e in zip(actual, expected, strict=True)]
    if not max(errors) <= TOLERANCE:
        raise ValueError(f"is wrong at the {label} sizes: relative error {max(errors):.2g}")
    return max(errors)


def measure(job: Job) -> dict[str, Any]:
    """Check and time all files of a job.

    Returns {label: {"error": relative error, "samples": [seconds]} or {"reason": why the file is excluded}}.
    """
    with np.load(job.arrays) as saved:
        arrays = dict(saved)
    order = list(job.files)
    random.Random(job.seed).shuffle(order)
    found: dict[str, dict[str, Any]] = {}
    loaded: dict[str, Loaded] = {}
    for label in order:
        try:
            loaded[label] = load(job.files[label], arrays, job.threads)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime raises many classes, and a refusal is a result
            found[label] = {"reason": str(error)}
        else:
            found[label] = {"error": loaded[label].error, "samples": []}
    if loaded:
        times = max(1, math.ceil(_SHORTEST / min(item.run() for item in loaded.values())))
        _interleave(job, loaded, found, times)
    return found


def _interleave(job: Job, loaded: dict[str, Loaded], found: dict[str, dict[str, Any]], times: int) -> None:
    """Take one sample per file in each round, in a new order each time."""
    order, count, shuffle = list(loaded), 0, random.Random(job.seed).shuffle
    end = time.perf_counter() + job.seconds
    while count < job.rounds or time.perf_counter() < end:
        shuffle(order)
        for label in order:
            found[label]["samples"].append(loaded[label].run(times))
        count += 1


def main() -> None:
    """Run the job in the file given as the only argument."""
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    Path(job.result).write_text(json.dumps(measure(job)))


if __name__ == "__main__":
    main()
