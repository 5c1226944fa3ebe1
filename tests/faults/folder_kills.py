"""Processes that end while they write a folder, and two that write one at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from onnxexp._serialize.atomic_folder import OutputFolder
from onnxexp._serialize.file_list import MANIFEST

from .fault import Fault, Row
from .interrupted import INTERRUPTS, interrupted

HOWS = tuple(INTERRUPTS)
_ROUNDS = 300


def write(folder: str | Path, tag: str) -> None:
    """Write a small export, each of whose files has the tag."""
    with OutputFolder(folder).replaced({"tag": tag}) as place:
        for name in ("model.onnx", "README.md"):
            Path(place, name).write_text(tag)


def write_user_files(folder: Path) -> None:
    """Put files of the user into a folder."""
    (folder / "notes.txt").write_text("mine")
    (folder / "data").mkdir()
    (folder / "data" / "table.csv").write_text("mine, too")


def state(folder: Path) -> str:
    """Return the tag of a whole export with the user's files, or the problem."""
    if not folder.is_dir():
        return "there is no folder"
    try:
        tag = json.loads((folder / MANIFEST).read_text("utf-8"))["tag"]
        files = {name: (folder / name).read_text("utf-8") for name in ("model.onnx", "README.md")}
        users = [(folder / name).read_text("utf-8") for name in ("notes.txt", "data/table.csv")]
    except FileNotFoundError as error:
        return f"a file is missing: {error.filename}"
    if {*files.values()} != {tag}:
        return f"mixed: {files} beside {tag}"
    return tag if users == ["mine", "mine, too"] else f"the user's files are {users}"


def _interrupts(how: str) -> Callable[[Row, Path], None]:
    def cause(row: Row, place: Path) -> None:
        """Interrupt an export over another at each of its changes, then export again."""
        step, folder = 0, place / "out"
        while True:
            write(folder, "old")
            write_user_files(folder)
            again = interrupted(lambda: write(folder, "new"), step, how)
            found = state(folder)
            write(place / "other", "next")
            left = {*os.listdir(place)} - {"out", "other"}
            right = {found, state(folder)} <= {"old", "new"} and not left
            row.check(right, f"{how} at change {step}: {found}, and {state(folder)} after the next export, {left}")
            shutil.rmtree(place)
            place.mkdir()
            if not again:
                return
            step += 1

    return cause


def _two_processes(row: Row, place: Path) -> None:
    """Let two processes export different models into one folder, many times."""
    folder = place / "out"
    write(folder, "0")
    write_user_files(folder)
    program = f"from {__name__} import write\nfor number in range({_ROUNDS}): write({str(folder)!r}, str(number))"
    root = Path(__file__).parents[2]
    others = [subprocess.Popen([sys.executable, "-c", program], cwd=root) for _ in range(2)]
    while any(other.poll() is None for other in others):
        row.check(folder.is_dir(), "there is no folder")
        time.sleep(0.001)
    row.check(all(other.returncode == 0 for other in others), f"the processes ended with {[each.returncode for each in others]}")
    row.check(state(folder) == str(_ROUNDS - 1), state(folder))
    row.check(os.listdir(place) == ["out"], f"{os.listdir(place)} are left")


FAULTS = (
    *(Fault(f"{how} at each change of a folder export", _interrupts(how)) for how in INTERRUPTS),
    Fault("two processes export into one folder", _two_processes),
)
