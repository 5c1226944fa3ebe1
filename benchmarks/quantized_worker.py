"""Export and time one quantized model.

The command is `python -m benchmarks.quantized_worker JOB.json`.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

from . import exporters, graphs
from .quantized_models import QUANTIZED

OPSET = 21
"""The first opset with 4-bit integers."""
FLOAT, OWN = "float", "onnxexp"


@dataclasses.dataclass(frozen=True)
class Job:
    """The job of a worker.

    Attributes:
        case: The model's name.
        seconds: Seconds of a latency sample, for each file.
        rounds: Samples of each file.
        result: The file for the figures, as JSON.
    """

    case: str
    seconds: float
    rounds: int
    result: str


def measure(job: Job, folder: Path) -> dict[str, Any]:
    """Measure the files of the float and the quantized model.

    Returns {"files": {tool: figures or {"reason": …}}}.
    """
    case = QUANTIZED[job.case]
    model, quantized, example = case.make()
    with torch.no_grad():
        expected = quantized(example[:1]).numpy()
    found: dict[str, dict[str, Any]] = {}
    sessions: dict[str, Callable[[], float]] = {}
    for tool, exported in ((FLOAT, model), (OWN, quantized), *((peer, quantized) for peer in exporters.PEERS)):
        path = folder / tool / "model.onnx"
        path.parent.mkdir()
        try:
            _export(tool, exported, example, str(path))
            session = _session(str(path))
            feeds = {session.get_inputs()[0].name: example[:1].numpy()}
            (actual,) = session.run(None, feeds)
        except Exception as error:  # noqa: BLE001 - an exporter may raise anything, and the error is its result
            found[tool] = {"reason": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            continue
        error = None if tool == FLOAT else float(np.abs(actual - expected).max() / np.abs(expected).max())
        found[tool] = {"file": graphs.file_bytes(str(path)), "error": error}
        sessions[tool] = _timer(session, feeds, job.seconds)
    for tool, samples in _samples(sessions, job.rounds).items():
        found[tool]["latency"] = statistics.median(samples)
    return {"files": found}


def _export(tool: str, model: nn.Module, example: torch.Tensor, path: str) -> None:
    if tool == "script":  # it takes no model of torch.fx with packed weights unless that is traced before
        model = torch.jit.trace(model, example)
    exporters.run(exporters.ONNXEXP if tool in (FLOAT, OWN) else tool, model, (example,), ({0: "batch"},), path, OPSET)


def _session(path: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _timer(session: Any, feeds: dict[str, np.ndarray], seconds: float) -> Callable[[], float]:
    """Return a function that runs the session for some time.

    The function returns the seconds per run.
    """

    def sample() -> float:
        start, count = time.process_time(), 0
        while count == 0 or time.process_time() - start < seconds:
            session.run(None, feeds)
            count += 1
        return (time.process_time() - start) / count

    return sample


def _samples(timers: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Take samples in turns, after one that does not count."""
    for timer in timers.values():
        timer()
    taken: dict[str, list[float]] = {tool: [] for tool in timers}
    for _ in range(rounds):
        for tool, timer in timers.items():
            taken[tool].append(timer())
    return taken


def main() -> None:
    """Run the job in the file given as the only argument."""
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        Path(job.result).write_text(json.dumps(measure(job, Path(folder))))


if __name__ == "__main__":
    main()
