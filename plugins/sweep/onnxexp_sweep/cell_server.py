"""A process that has imported torch, and forks one child for each cell.

A worker starts it, writes one job as a line of JSON, and reads one line with the
outcome. The import of torch and of the plugins takes seconds, and a child has it from the start. A child shares nothing else with
the others: its crash, its memory and its files end with it.

The server ends when its standard input does, as when the worker is killed, and ends the running child first.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from onnxexp.commands import temporary_folder
from onnxexp_sweep.versions import installed

_POLL = 0.02
_FAMILY_EVERY = 10
"""Polls between two searches for the child's own children."""
_TAIL = 8000
_PRELOADED = (
    "torch", "torch.export", "torch._export.utils", "torch._dynamo", "torch.fx.experimental.symbolic_shapes", "onnx",
    "onnx.checker", "onnx_ir", "onnxexp_sweep.cell", "onnxruntime", "onnxexp._pipeline", "onnxexp._cli.model_target",
)  # fmt: skip


def preload(modules: Sequence[str] = ()) -> str:
    """Import what an export needs, and some modules.

    The former by a small export with each frontend, whose tensors are too small for torch's threads: those do not survive a fork.

    Returns why one of the modules cannot be imported, "" if all are.
    """
    import onnxexp

    for name in _PRELOADED:
        importlib.import_module(name)
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            return f"preload has {name!r}, which cannot be imported ({type(error).__name__}: {error})"
    import torch

    for frontend in ("export", "trace"):
        with contextlib.suppress(onnxexp.OnnxExporterError), warnings.catch_warnings():  # what is broken is every cell's result
            warnings.simplefilter("ignore")
            onnxexp.export(torch.nn.ReLU(), (torch.zeros(2, 3),), dynamic_shapes=({0: "n"},), capture=frontend)
    gc.collect()
    gc.freeze()  # else a collection in a child copies every page of this process
    return ""


def main() -> None:
    """Answer jobs until the standard input ends.

    The process's arguments are modules to import first.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what imports print does not get among the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when to end
    if problem := preload(sys.argv[1:]):
        _answer(answers, {"problem": problem})
        return
    _answer(answers, {"versions": installed()})
    jobs = os.fdopen(0, "rb", buffering=0, closefd=False)
    while line := jobs.readline():
        _answer(answers, supervise(json.loads(line)))


def _answer(stream: Any, value: Mapping[str, Any]) -> None:
    stream.write(json.dumps(value, default=str) + "\n")
    stream.flush()


def supervise(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a job in a child, within its limits; return its outcome."""
    with temporary_folder() as name:
        folder = Path(name)
        started = time.time()
        begin = time.perf_counter()
        child = os.fork()
        if child == 0:
            _child(job, folder)
        ended, status, used = _watch(child, job)
        seconds = time.perf_counter() - begin
        try:
            record = json.loads((folder / "record.json").read_text("utf-8"))
        except FileNotFoundError:  # it ended before its first step
            record = {"step": "start"}
        outcome = {**record, **used, "started": started, "seconds": seconds}
        if ended:
            outcome |= ended
        elif "status" not in record:
            outcome |= {"status": "crashed", "reason": f"the process ended {_ending(status)} in the step {record['step']!r}"}
        if outcome["status"] != "ok":
            outcome["stderr"] = _tail(folder / "output")
        return outcome


def _child(job: Mapping[str, Any], folder: Path) -> None:
    """Run a cell in this new process, and end it."""
    try:
        os.setpgid(0, 0)  # so that its own children can be ended with it
        _end_with_parent()
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        faulthandler.enable(2)
        from onnxexp_sweep.cell import Record, run

        record = Record(folder / "record.json")
        try:
            os.chdir(job["folder"])
        except OSError as error:
            where = f"{job['folder']} on {os.uname().nodename}"
            record.update(
                status="failed", kind="OSError",
                reason=f"the zoo's folder {where}: {error.strerror}; workers need it on a shared disk, at the same path",
            )  # fmt: skip
            os._exit(0)
        run(job, folder, record)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - sys.exit in a model's code, too: this process must not return to the server's loop
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _end_with_parent() -> None:
    """Have Linux kill this process when the server dies; no limit would apply then."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _watch(child: int, job: Mapping[str, Any]) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Wait for a child, and end it at a limit.

    Returns:
        The outcome of a child that was ended, else empty; its exit status; its largest memory in bytes and its processor time.
    """
    deadline = time.monotonic() + job["time"] if job["time"] else float("inf")
    limit = job["memory"] or float("inf")
    process, family, peak = psutil.Process(child), list[psutil.Process](), 0
    polls = 0
    ended: dict[str, Any] = {}
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            _kill(child, family)
            peak = max(peak, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
            return ended, status, {"peak_bytes": peak, "processor_seconds": usage.ru_utime + usage.ru_stime}
        if polls % _FAMILY_EVERY == 0:
            family = _children(process)
        used = sum(map(_resident, [process, *family]))
        peak = max(peak, used)
        if not ended and used > limit:
            ended = {"status": "memory", "reason": f"ended at {used / 1e9:.2f} GB, the limit is {limit / 1e9:.2f} GB"}
        elif not ended and time.monotonic() > deadline:
            ended = {"status": "timeout", "reason": f"ended after the limit of {job['time']:g} s"}
        if ended:
            _kill(child, family)
        if select.select([0], [], [], _POLL)[0]:  # nothing else is sent meanwhile: the worker is gone
            _kill(child, _children(process))
            os.waitpid(child, 0)  # it writes no more
            sys.exit(1)  # the temporary folder is removed
        polls += 1


def _kill(child: int, family: list[psutil.Process]) -> None:
    """Kill a child, its process group, and its children that have left the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all have ended; macOS reports a zombie as the latter
        os.killpg(child, signal.SIGKILL)
    for each in family:
        with contextlib.suppress(psutil.Error):  # it has ended
            each.kill()


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:  # it has ended
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended
        return 0


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"with status {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"by signal {-code} ({names.get(-code, 'unknown')})"


def _tail(path: Path) -> str:
    """Return the end of what a child has printed."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:  # it ended before it opened the file
        return ""
