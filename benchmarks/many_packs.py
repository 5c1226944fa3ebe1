"""The cost of 300 installed packs that are off: `python -m benchmarks.many_packs`.

Each ratio is that of the median times with and without the packs, measured in turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import onnxexp
from tests.core.packs import TABLE, install

PACKS, ROUNDS, EXPORTS = 300, 5, 10
_EXPORT = "import torch, onnxexp; onnxexp.export(torch.neg, (torch.ones(2),))"


def ratio(measure: Callable[[bool], float]) -> float:
    """Return the ratio of the median seconds with packs to those without."""
    rounds = [(measure(True), measure(False)) for _ in range(ROUNDS)]
    return statistics.median(each for each, _ in rounds) / statistics.median(each for _, each in rounds)


def process(arguments: Sequence[str], folder: Path, names: Sequence[str], with_packs: bool) -> float:
    """Return the seconds of a process in an empty folder."""
    here = folder / "here"  # metadata in the working directory does not count
    here.mkdir(exist_ok=True)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *([str(folder)] if with_packs else [])])
    variables = {**os.environ, **({"ONNXEXP_DISABLE": ",".join(names)} if with_packs else {}), "PYTHONPATH": paths}
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=variables, check=True, stdout=subprocess.DEVNULL, cwd=here)
    return time.perf_counter() - began


def exports(folder: Path, names: Sequence[str], with_packs: bool) -> float:
    """Return the seconds of some exports in this process."""
    sys.path += [str(folder)] if with_packs else []
    try:
        began = time.perf_counter()
        for _ in range(EXPORTS):
            onnxexp.export(torch.neg, (torch.ones(2),), without=names if with_packs else ())
        return time.perf_counter() - began
    finally:
        sys.path[:] = [each for each in sys.path if each != str(folder)]


def main() -> None:
    """Print a table of the ratios."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = [f"many{number}" for number in range(PACKS)]
        for name in names:
            install(folder, name, {"__init__": TABLE}, f"{name}:table")
        command = ["-m", "onnxexp", "plugins"]
        rows: dict[str, Callable[[bool], float]] = {
            "onnxexp plugins": lambda packs: process(command, folder, names, packs),
            "a process with an export": lambda packs: process(["-c", _EXPORT], folder, names, packs),
            "an export": lambda packs: exports(folder, names, packs),
        }
        print(f"| with {PACKS} packs that are off | time / time without |\n|---|---|")
        for name, measure in rows.items():
            print(f"| {name} | {ratio(measure):.2f} |", flush=True)


if __name__ == "__main__":
    main()
