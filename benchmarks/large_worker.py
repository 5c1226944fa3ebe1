"""Export one large model: `python -m benchmarks.large_worker JOB.json`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

import onnxexp

from . import exporters, graphs, memory
from .case import padding_mask, tokens
from .large_models import LARGE, LargeCase

_SHARED = 4096
"""Bytes up to which onnxexp stores equal weights once."""
_AXES = ({0: "batch", 1: "sequence"},) * 2


@dataclasses.dataclass(frozen=True)
class Job:
    """The job of a worker.

    Attributes:
        model, tool: The names of the model and the tool.
        checkpoint: The folder of the weights; None where the model has its own.
        folder: The empty folder for the exported files.
        opset: The target opset.
        threads: The threads of torch.
        result: The file for the figures, as JSON.
    """

    model: str
    tool: str
    checkpoint: str | None
    folder: str
    opset: int
    threads: int
    result: str


def measure(job: Job, case: LargeCase) -> dict[str, Any]:
    """Measure the figures of a job, for `large.LargeResult`."""
    ids = tokens(32_000, 2, 16)
    args, path = (ids, padding_mask(*ids.shape)), Path(job.folder) / "model.onnx"
    _export(job, case.tiny(), args, path, None)
    _clean(job)
    model = case.make()

    def export() -> tuple[float, exporters.Stages]:
        start = time.perf_counter()
        stages = _export(job, model, args, path, job.checkpoint)
        return time.perf_counter() - start, stages

    copies = [_copy(job, model)]
    _forget(job)
    ((seconds, stages), anonymous), growth = memory.growth(lambda: memory.anonymous_growth(export))
    weights = onnxexp.read_checkpoint(job.checkpoint) if job.checkpoint is not None else model.state_dict()
    model.load_state_dict(weights, assign=True)  # torch.export takes no parameters on the meta device beside real inputs
    start = time.perf_counter()
    exporters.run(exporters.CAPTURE, model, args, _AXES, "", 0)
    capture = time.perf_counter() - start
    if job.tool == exporters.ONNXEXP:
        _check_weights(path, weights)
    file = graphs.file_bytes(path)
    _clean(job)
    copies.append(_copy(job, model))
    return {
        "weights": sum(weight.nbytes for weight in weights.values()), "seconds": seconds, "stages": stages, "capture": capture,
        "copy": statistics.mean(copies), "growth": growth, "anonymous": anonymous, "file": file,
    }  # fmt: skip


def _export(job: Job, model: nn.Module, args: exporters.Args, path: Path, checkpoint: str | None) -> exporters.Stages:
    if checkpoint is None:
        return exporters.run(job.tool, model, args, _AXES, str(path), job.opset)
    program = onnxexp.export(
        model, args, path, dynamic_shapes=_AXES, opset_version=job.opset, capture="export", weights=checkpoint
    )
    return program.timings


def _copy(job: Job, model: nn.Module) -> float:
    """Return the seconds in which the weights are copied into files."""
    _forget(job)
    start = time.perf_counter()
    if job.checkpoint is not None:
        for file in Path(job.checkpoint).iterdir():
            shutil.copyfile(file, Path(job.folder) / file.name)
    else:
        with (Path(job.folder) / "weights").open("wb") as out:
            for parameter in model.parameters():
                out.write(parameter.detach().reshape(-1).view(torch.uint8).numpy().data)
    seconds = time.perf_counter() - start
    _clean(job)
    return seconds


def _forget(job: Job) -> None:
    """Write all files to the disk, and drop the checkpoint from the system's cache."""
    os.sync()
    for file in Path(job.checkpoint).iterdir() if job.checkpoint is not None else ():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _clean(job: Job) -> None:
    for file in Path(job.folder).iterdir():
        file.unlink()


def _check_weights(path: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Compare 100 elements of each weight with the file's, where it may be transposed.

    Small weights are left out: equal ones are one initializer. Raises ValueError where a weight differs.
    """
    stored = {name: value.const_value.numpy() for name, value in ir.load(path).graph.initializers.items()}
    for name, weight in weights.items():
        if weight.nbytes <= _SHARED:
            continue
        array = torch.from_numpy(stored[name])
        places = torch.randint(weight.numel(), (100,))
        found = array.reshape(-1)[places]
        forms = [form for form in (weight, weight.t()) if form.shape == array.shape]
        if not any(torch.equal(form[torch.unravel_index(places, form.shape)], found) for form in forms):
            raise ValueError(f"{name} differs from the checkpoint's")


def main() -> None:
    """Run the job in the file given as the only argument.

    A failure of the tool is a result, too.
    """
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    torch.set_num_threads(job.threads)
    try:
        figures = measure(job, LARGE[job.model])
    except Exception as error:  # noqa: BLE001 - an exporter may raise anything, and the error is its result
        figures = {"reason": f"{type(error).__name__}: {error}"[:400]}
    Path(job.result).write_text(json.dumps(figures))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
