"""Processes that are killed at each of their changes to the file system."""

from __future__ import annotations

import os
from pathlib import Path

from onnxexp._serialize.hidden_folder import hidden_folder

from .fault import ONNXEXP, Row
from .interrupted import KILL, interrupted
from .outputs import Output, broken, faults, listed, older


def _kill(output: Output, row: Row, place: Path) -> None:
    """Kill the write of an output over an older one, then write once more.

    A live writer runs beside the second write.
    """
    step, again = 0, True
    while again:
        with older(output, place) as folder:
            clean = listed(folder)
            again = interrupted(lambda: output.write(folder, "new"), step, KILL)
            problems = [broken(output, folder, "old", "new")]
            if row.exporter == ONNXEXP:
                with hidden_folder(str(folder)) as live:
                    output.write(folder, "next")
                    problems += [broken(output, folder, "next"), "" if os.path.isdir(live) else "a live writer lost its files"]
                left = listed(folder) ^ clean
                problems.append(f"{sorted(left)} are left or gone" if left else "")
            row.check(not any(problems), f"killed at change {step}: {problems}")
        step += 1


FAULTS = tuple(faults("SIGKILL at each change of", _kill))
