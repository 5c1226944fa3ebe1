"""Read damaged variants of a file in forked processes of bounded time and memory."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onnxexp import OnnxExporterError
from onnxexp._cli import main

from .fault import fork

READ, REFUSED = "right", "clear error"
GOOD = (READ, REFUSED)
RAW, HANG, MEMORY, CODE, CRASH = "raw error", "hang", "memory", "code", "crash"
_SECONDS = 10
_MEMORY = 256 << 20
"""Bytes that a read may take beside four times the file: a command's own."""
_BATCH = 200
_PIECES = (b"\xff" * 8, b"\0" * 8, b"\x80" * 4 + b"\x7f", b"-1", b"9" * 20, b'"', b"[")
_RUNS_CODE = (
    "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "shutil.rmtree", "os.remove",
)  # fmt: skip
"""Python's audit events of what no file may cause."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of file.

    Attributes:
        name: The name in the table.
        make: Write a good file, and what it needs, into an empty folder; return the file to damage.
        read: Read the file as onnxexp's commands do.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], Any]


def command(*words: str) -> None:
    """Run a command, and raise the error that it ends with.

    Raises OnnxExporterError for an error of ours, and RuntimeError for a raw error.
    """
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        status = main(list(words))
    text = errors.getvalue()
    if "This looks like a bug" in text or "Traceback" in text:
        raise RuntimeError(text)
    if status not in (0, 1):
        raise OnnxExporterError(text)


def variants(good: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Generate damaged variants: flipped bits, changed bytes, moved and cut pieces."""
    draw = random.Random(seed)
    for index in range(count):
        data = bytearray(good)
        if index % 8 < 6:
            for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif index % 8 == 6:
            at = draw.randrange(len(data))
            data[at : at + draw.choice((1, 4, 8))] = draw.choice(_PIECES)
        else:
            first, last = sorted((draw.randrange(len(data)), draw.randrange(len(data))))
            data[draw.randrange(len(data)) :] = data[first:last]
        yield bytes(data)


def outcomes(kind: Kind, folder: Path, count: int, seed: int = 0) -> tuple[collections.Counter[str], list[str]]:
    """Count the outcomes of damaged variants of one kind, and describe the problems."""
    file = kind.make(folder)
    good = file.read_bytes()
    kind.read(file)  # a good file is read, and imports are made before the fork
    counts: collections.Counter[str] = collections.Counter()
    problems: list[str] = []
    todo = list(variants(good, seed, count))
    done = 0
    while done < len(todo):
        found = list(_batch(kind, file, todo[done : done + _BATCH]))
        for outcome, problem in found:
            counts[outcome] += 1
            if outcome not in GOOD:
                problems.append(f"{outcome} at variant {done} of {kind.name} (seed {seed}): {problem}")
            done += 1
    file.write_bytes(good)
    return counts, problems


def _batch(kind: Kind, file: Path, contents: list[bytes]) -> Iterator[tuple[str, str]]:
    """Read some variants in one child; generate an outcome for each until it ends."""
    source, target = os.pipe()
    child = fork()
    if child == 0:
        os.close(source)
        _child(kind, file, contents, target)
    os.close(target)
    with os.fdopen(source, encoding="utf-8") as lines:
        found = [line.rstrip("\n").partition("\t") for line in lines]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    yield from ((outcome, problem) for outcome, _, problem in found)
    if len(found) < len(contents):
        yield (HANG if status == -signal.SIGALRM else CRASH), f"the process ended with {status}"


def _child(kind: Kind, file: Path, contents: list[bytes], target: int) -> None:
    """Read variants in this new process, write a line for each, and end it."""
    seen: list[str] = []
    sys.addaudithook(lambda event, arguments: seen.append(f"{event} {arguments}") if event in _RUNS_CODE else None)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    lines = os.fdopen(target, "w", encoding="utf-8")
    for data in contents:
        file.write_bytes(data)
        limit = used + 4 * len(data) + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        signal.alarm(_SECONDS)
        outcome, problem = _read(kind, file)
        signal.alarm(0)
        if seen:
            outcome, problem = CODE, seen[0]
            seen.clear()
        lines.write(f"{outcome}\t{' '.join(problem.split())[:600]}\n")
        lines.flush()
    os._exit(0)


def _read(kind: Kind, file: Path) -> tuple[str, str]:
    try:
        kind.read(file)
    except OnnxExporterError as error:
        return (MEMORY, str(error)) if isinstance(error.__cause__, MemoryError) else (REFUSED, str(error))
    except MemoryError as error:
        return MEMORY, str(error)
    except BaseException as error:  # noqa: BLE001 - each is an outcome
        return RAW, f"{type(error).__name__}: {error}"
    return READ, ""
