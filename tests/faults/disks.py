"""Full disks, and limits of file sizes, while an output replaces an older one."""

from __future__ import annotations

import contextlib
from pathlib import Path

from onnxexp._errors import OnnxExporterError

from .fault import ONNXEXP, TORCH_ONNX, Row
from .interrupted import FULL_DISK, interrupted
from .outputs import Output, broken, faults, listed, older
from .size_limit import size_limit

_LIMITS = 16
_ERRORS = {ONNXEXP: OnnxExporterError, TORCH_ONNX: Exception}
"""What may be raised, and is expected for each exporter."""


def _full(output: Output, row: Row, place: Path) -> None:
    """Let each change fail that needs space."""
    step, again = 0, True
    while again:
        with older(output, place) as folder:
            clean = listed(folder)
            problems = []
            try:
                again = interrupted(lambda: _explained(output, folder), step, FULL_DISK, _ERRORS[row.exporter])
            except AssertionError as error:
                problems.append(str(error))
            problems += _problems(output, folder, clean)
            row.check(not problems, f"full at change {step}: {problems}")
        step += 1


def _explained(output: Output, folder: Path) -> None:
    """Write the new output; an error of ours must mention the lack of space."""
    try:
        output.write(folder, "new")
    except OnnxExporterError as error:
        if "o space left" not in str(error):
            raise AssertionError from error
        raise


def _limited(output: Output, row: Row, place: Path) -> None:
    """Write with several limits on the size of a file."""
    with older(output, place) as folder:
        output.write(folder, "new")
        largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    for number in range(_LIMITS):
        with older(output, place) as folder:
            clean = listed(folder)
            with contextlib.suppress(_ERRORS[row.exporter]), size_limit(largest * number // _LIMITS):
                output.write(folder, "new")
            problems = _problems(output, folder, clean)
            row.check(not problems, f"files of at most {number}/{_LIMITS} of the size: {problems}")


def _problems(output: Output, folder: Path, clean: set[str]) -> list[str]:
    """Describe what is wrong with an output, and which files are left or gone.

    Until the next write, the new output may have other files than the old one.
    """
    problem = broken(output, folder, "old", "new")
    if output.exporter != ONNXEXP:
        return [problem] if problem else []
    if not broken(output, folder, "new"):
        output.write(folder, "next")
    left = listed(folder) ^ clean
    return [problem] * bool(problem) + [f"{sorted(left)} are left or gone"] * bool(left)


FAULTS = (*faults("the disk is full at each change of", _full), *faults("a limit on the size of files for", _limited))
