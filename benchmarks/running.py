"""Run the workers one after the other, and collect their results."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import large, quantized
from .export_worker import Job as ExportJob
from .exporters import CAPTURE, CHECKED, ONNXEXP, PEERS, TRACE
from .large import LargeResult
from .latency_worker import Job as LatencyJob
from .quantized import QuantizedResult
from .results import ModelResult, ToolResult

_CONTROL = "control"
_CONTROL_LIMIT = 300e6
"""Bytes of a file below which a second session measures the noise."""
_SHORT = 0.1
"""Seconds of an export below which the state of the allocator changes the figure by up to 25 %."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The extent of the measurements.

    Attributes:
        opset: The target opset of every tool.
        repeats: Timed exports per tool, after the first.
        processes: Processes that time an export of less than 0.1 s, the tools in turn.
        budget: Seconds after which a tool's further exports are skipped.
        seconds: Seconds of latency samples per process.
        rounds: The least number of rounds of latency samples per process.
        passes: Processes that take latency samples.
        threads: Threads of torch and of ONNX Runtime.
        clock: The clock for exports, "wall" or "cpu".
        timeout: Seconds after which a worker is stopped.
    """

    opset: int = 20
    repeats: int = 7
    processes: int = 5
    budget: float = 8.0
    seconds: float = 4.0
    rounds: int = 5
    passes: int = 3
    threads: int = 1
    clock: str = "wall"
    timeout: float = 300.0


QUICK = Settings(repeats=3, processes=1, budget=4.0, seconds=2.0, passes=1)


def machine() -> dict[str, str]:
    """Describe the machine and the package versions."""
    packages = ("onnxexp", "torch", "onnx", "onnxscript", "onnxruntime", "transformers")
    return {"cpu": _cpu(), "cores": str(os.cpu_count()), "system": platform.system(), "python": platform.python_version()} | {
        package: importlib.metadata.version(package) for package in packages
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if (info.exists())
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def measure(name: str, settings: Settings, folder: Path, report: Callable[[str], None]) -> ModelResult:
    """Measure all figures of one model.

    Write the files into the folder and call `report` with the progress.
    """
    tools: dict[str, ToolResult] = {}
    for tool in (CAPTURE, ONNXEXP, TRACE, CHECKED, *PEERS):
        report(f"{name}: {tool}")
        captures = tool == ONNXEXP and tools[CAPTURE].reason is None
        tools[tool] = export(name, tool, settings, folder, captures)
    for number in range(1, settings.processes):
        for tool in (ONNXEXP, TRACE, CHECKED, *PEERS):
            if tools[tool].reason is None and tools[tool].seconds < _SHORT:
                report(f"{name}: {tool}, process {number + 1} of {settings.processes}")
                tools[tool].add(export(name, tool, settings, folder, captures=bool(tools[tool].captures)))
    result = ModelResult(name, tools)
    for number in range(settings.passes):
        report(f"{name}: latency, process {number + 1} of {settings.passes}")
        _latency(result, settings, folder, number)
    return result


def model_file(folder: Path, tool: str) -> Path:
    """Return the path of a tool's file.

    Each tool has a folder, so that external data does not mix.
    """
    return folder / tool / "model.onnx"


def export(name: str, tool: str, settings: Settings, folder: Path, captures: bool = False) -> ToolResult:
    """Measure one tool on one model, in its own process."""
    path = model_file(folder, tool)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = str(_arrays(folder)) if tool == CAPTURE else None
    repeats = 0 if tool == CAPTURE else settings.repeats
    job = ExportJob(
        name,
        tool,
        str(path),
        settings.opset,
        repeats,
        settings.budget,
        settings.threads,
        settings.clock,
        captures,
        arrays,
        str(folder / "result.json"),
    )
    return ToolResult(**_work("export_worker", job, settings))


def _arrays(folder: Path) -> Path:
    return folder / "arrays.npz"


def _latency(result: ModelResult, settings: Settings, folder: Path, number: int) -> None:
    files = {tool: str(model_file(folder, tool)) for tool in (ONNXEXP, TRACE, *PEERS) if result.tools[tool].reason is None}
    if ONNXEXP in files and result.onnxexp.file < _CONTROL_LIMIT:
        files[_CONTROL] = files[ONNXEXP]
    job = LatencyJob(
        files, str(_arrays(folder)), settings.threads, settings.seconds, settings.rounds, number, str(folder / "result.json")
    )
    found = _work("latency_worker", job, settings)
    if "reason" in found:  # the worker itself failed: no file has a latency
        found = dict.fromkeys(files, found)
    result.control.extend([found[_CONTROL]["samples"]] if "samples" in found.get(_CONTROL, {}) else [])
    for tool in files.keys() - {_CONTROL}:
        figures, target = found[tool], result.tools[tool]
        target.reason = figures.get("reason")
        if target.reason is None:
            target.error = max(target.error, figures["error"])
            target.latencies.append(figures["samples"])


def _work(module: str, job: Any, settings: Settings) -> dict[str, Any]:
    """Run a worker, and return its result, or a `reason` if it failed."""
    result = Path(job.result)
    result.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(dataclasses.asdict(job), file)
        file.flush()
        command = [sys.executable, "-m", f"benchmarks.{module}", file.name]
        # an installed package has its byte code, so a checkout may keep it too
        env = os.environ | {"OMP_NUM_THREADS": str(settings.threads), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=settings.timeout, check=False)
        except subprocess.TimeoutExpired:
            return {"reason": f"took more than {settings.timeout:.0f} s"}
    if not result.exists():
        last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with code {done.returncode}"]
        return {"reason": last[0]}
    return dict(json.loads(result.read_text()))


def measure_quantized(settings: Settings, report: Callable[[str], None]) -> list[QuantizedResult]:
    """Measure the quantized models."""

    def work(module: str, job: Any) -> dict[str, Any]:
        return _work(module, job, settings)

    return list(quantized.measure(work, settings.seconds / 20, settings.rounds * settings.passes, report))


def measure_large(names: Sequence[str], settings: Settings, folder: Path, report: Callable[[str], None]) -> list[LargeResult]:
    """Measure the large models, whose files take minutes to write."""
    patient = dataclasses.replace(settings, timeout=10 * settings.timeout)

    def work(module: str, job: Any) -> dict[str, Any]:
        return _work(module, job, patient)

    return list(large.measure(work, names, settings.opset, settings.threads, folder, report))


def clean(folder: Path) -> None:
    """Remove a model's files."""
    shutil.rmtree(folder, ignore_errors=True)
