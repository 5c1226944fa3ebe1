"""Several writers of one path."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .fault import Fault, Row, fork
from .outputs import OUTPUTS, PAIR, Output, broken, listed

ROUNDS, SAVES = 50, 10


def _pair(row: Row) -> Output:
    return next(each for each in OUTPUTS if each.name == PAIR and each.exporter == row.exporter)


def _save(output: Output, folder: Path, tag: str, saves: int) -> None:
    for _ in range(saves):
        output.write(folder, tag)


def _check(row: Row, folder: Path) -> None:
    problem = broken(_pair(row), folder, "old", "new")
    left = listed(folder) - {"model.onnx", "model.onnx.data"}
    row.check(not problem and not left, problem or f"left {sorted(left)}")


def _processes(row: Row, folder: Path) -> None:
    output = _pair(row)
    output.write(folder, "old")  # which exports all models
    for _ in range(ROUNDS):
        children = []
        for tag in ("old", "new"):
            child = fork()
            if child == 0:
                try:
                    _save(output, folder, tag, SAVES)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        if any(statuses):
            row.check(False, f"a writer failed: {statuses}")
            continue
        _check(row, folder)


def _threads(row: Row, folder: Path) -> None:
    output = _pair(row)
    output.write(folder, "old")
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(_save, output, folder, ("old", "new")[index % 2], 3) for index in range(8)]
        if errors := [error for writer in writers if (error := writer.exception()) is not None]:
            row.check(False, f"a writer failed: {errors}")
            continue
        _check(row, folder)


_EXPORTERS = tuple(each.exporter for each in OUTPUTS if each.name == PAIR)

FAULTS = (
    Fault("two processes save a pair to one path", _processes, _EXPORTERS),
    Fault("eight threads save a pair to one path", _threads, _EXPORTERS),
)
