"""Run the cells of a sweep that have no result yet."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxexp_sweep.cell_list import Cell
from onnxexp_sweep.engine import Unfinished, connected, finished_cells, worker_versions
from onnxexp_sweep.progress import SweepProgress, short_reason
from onnxexp_sweep.results import Results, row_of

_GIVE_UP = 8
"""After so many cells that cannot be run, and none that can, the others are not tried."""


@dataclasses.dataclass(frozen=True)
class Done:
    """What a sweep did.

    Attributes:
        skipped: The number of cells that had a result.
        others: The number of results in the folder that are of other cells, or of these with other versions.
        counts: The number of cells that ran by status.
        failures: The status, name and reason of each cell that is not "ok".
        unfinished: The name of each cell without a result, and the reason.
        seconds: The time of everything, the start of local workers too.
    """

    skipped: int
    others: int
    counts: Mapping[str, int]
    failures: Sequence[tuple[str, str, str]]
    unfinished: Sequence[tuple[str, str]]
    seconds: float


def sweep(
    cells: Sequence[Cell], folder: Path, *, on: str, workers: int, preload: Sequence[str] = (), retry_failed: bool = False
) -> Done:
    """Run the cells that have no result, and append each result to a folder.

    A result with other versions than the workers' does not count.

    This process writes the results. So the workers need no access to the folder, and it has one writer; what is lost when this
    process is killed are the cells that run at that moment, and these run again.

    Args:
        cells: The cells.
        folder: The folder of results.
        on: ``local``, or the address of a scheduler.
        workers: The number of local workers.
        preload: Modules that each worker imports once, before its first cell.
        retry_failed: Run cells again whose result is not "ok".

    Raises OptionError where the scheduler, the workers or the folder cannot be used.
    """
    begin = time.perf_counter()
    failures: list[tuple[str, str, str]] = []
    unfinished: list[tuple[str, str]] = []
    with Results(folder) as results, connected(on, workers) as client:
        versions = worker_versions(client, on)
        keys = {cell.key(versions): cell for cell in cells}
        others = len(results.done() - keys.keys())
        done = results.done(failed_too=not retry_failed)
        jobs = {key: cell.job(versions) for key, cell in keys.items() if key not in done}
        with SweepProgress(len(jobs), len(cells) - len(jobs)) as progress:
            left = dict(jobs)
            for each in finished_cells(client, list(jobs.values()), progress.started, preload) if jobs else ():
                del left[each.job["key"]]
                if isinstance(each, Unfinished):
                    unfinished.append((each.job["name"], each.reason))
                    if len(unfinished) == _GIVE_UP and not progress.counts:
                        break
                    continue
                outcome: Mapping[str, Any] = each.outcome
                results.append(row_of(each.job, outcome))
                progress.ended(each.job["key"], each.job["name"], outcome)
                if outcome["status"] != "ok":
                    failures.append((outcome["status"], each.job["name"], short_reason(outcome)))
    unfinished += [(job["name"], "none of the cells before it could be run") for job in left.values()]
    return Done(len(cells) - len(jobs), others, dict(progress.counts), failures, unfinished, time.perf_counter() - begin)
