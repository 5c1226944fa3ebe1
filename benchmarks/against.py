"""Compare the exports of two revisions: `python -m benchmarks.against REVISION`.

Both revisions are installed alike into temporary folders: an editable installation, with a folder on Python's path for each
plugin, imports more slowly. They export the same models with the same workers and the same other packages, in processes of their
own that take turns. A ratio below 1 means that the present code (the tracked files as they are) is faster or smaller. The option
`--models` selects the models.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import models, running
from .exporters import ONNXEXP, TRACE
from .results import ToolResult

ROOT = Path(__file__).parents[1]
MODELS = "linear,resnet18,bert-base,llama-110m"
_FIGURES = ("seconds", "first", "memory", "file")


def install(revision: str, folder: Path) -> Path:
    """Install the core and the plugins of a revision into a folder.

    Returns the folder for PYTHONPATH.
    """
    sources, packages = folder / "sources", folder / "packages"
    sources.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", sources], input=archive, check=True)
    projects = [sources, *(path.parent for path in sorted(sources.glob("plugins/*/pyproject.toml")))]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--target", packages, *projects], check=True)
    return packages


def figures(result: ToolResult) -> dict[str, float]:
    """Return the compared figures of one process."""
    return {"seconds": result.seconds, "first": result.first, "memory": float(result.growth), "file": float(result.file)}


def present() -> str:
    """Return a revision with the tracked files as they are."""
    changed = subprocess.run(["git", "stash", "create"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return changed or "HEAD"


def compare(
    name: str, tool: str, sides: Mapping[str, Path], rounds: int, settings: running.Settings, folder: Path
) -> dict[str, float]:
    """Compute the ratios of the present code's figures to the other revision's.

    Each ratio is the median over the rounds.

    Raises:
        SystemExit: An export failed.
    """
    ratios: dict[str, list[float]] = {figure: [] for figure in _FIGURES}
    for _ in range(rounds):
        found = {}
        for side, path in sides.items():
            os.environ["PYTHONPATH"] = str(path)
            result = running.export(name, tool, settings, folder)
            if result.reason is not None:
                raise SystemExit(f"{name}, {tool}, {side} code: {result.reason}")
            found[side] = figures(result)
        for figure, samples in ratios.items():
            samples.append(found["present"][figure] / max(found["other"][figure], 1e-9))
    return {figure: statistics.median(samples) for figure, samples in ratios.items()}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("revision", help="the other revision, for example a tag or HEAD~5")
    parser.add_argument("--models", metavar="A,B", default=MODELS, help="these models (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each revision (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="timed exports in each process (default: %(default)s)")
    parser.add_argument("--tools", nargs="+", choices=[ONNXEXP, TRACE], default=[ONNXEXP], help="the frontends (default: export)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table of ratios, and their geometric means."""
    options = _arguments(argv)
    settings = running.Settings(repeats=options.repeats, budget=60.0)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        revisions = {"present": present(), "other": options.revision}
        sides = {side: install(revision, Path(work) / side) for side, revision in revisions.items()}
        print(f"| model | tool | {' | '.join(_FIGURES)} |\n|---|---|{'---|' * len(_FIGURES)}")
        for name in models.chosen(options.models, quick=False):
            for tool in options.tools:
                rows.append(compare(name, tool, sides, options.rounds, settings, Path(work)))
                print(f"| {name} | {tool} | {' | '.join(f'{rows[-1][figure]:.3f}' for figure in _FIGURES)} |", flush=True)
    means = [math.exp(statistics.fmean(math.log(row[figure]) for row in rows)) for figure in _FIGURES]
    print(f"| geometric mean | | {' | '.join(f'{mean:.3f}' for mean in means)} |")


if __name__ == "__main__":
    main()
