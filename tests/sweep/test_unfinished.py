"""Cells that no worker can run stay to do; here without a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import onnxexp_sweep.sweep as module
from onnxexp_sweep.engine import Finished, Unfinished
from onnxexp_sweep.results import read
from tests.sweep.rows import OUTCOME, VERSIONS, cells


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace dask: cells of these names run, others have no worker."""
    able: list[str] = []

    def finished(client: Any, jobs: Sequence[Mapping[str, Any]], *others: Any) -> Iterator[Finished | Unfinished]:
        for job in jobs:
            yield Finished(job, OUTCOME) if job["name"] in able else Unfinished(job, "no torch")

    monkeypatch.setattr(module, "connected", lambda on, workers: contextlib.nullcontext())
    monkeypatch.setattr(module, "worker_versions", lambda client, on: VERSIONS)
    monkeypatch.setattr(module, "finished_cells", finished)
    return able


def test_a_sweep_gives_up_where_nothing_runs(tmp_path: Path, cluster: list[str]) -> None:
    found = cells(50)
    done = module.sweep(found, tmp_path, on="local", workers=1)
    assert [name for name, _ in done.unfinished] == [cell.name for cell in found] and not done.counts
    assert {reason for _, reason in done.unfinished} == {"no torch", "none of the cells before it could be run"}
    assert read(tmp_path).num_rows == 0


def test_one_broken_worker_does_not_end_a_sweep(tmp_path: Path, cluster: list[str]) -> None:
    found = cells(50)
    cluster += [cell.name for cell in found if cell.model.name.endswith("5")]
    done = module.sweep(found, tmp_path, on="local", workers=1)
    assert done.counts == {"ok": len(cluster)} and len(done.unfinished) == 50 - len(cluster)
    cluster += [cell.name for cell in found if cell.name not in cluster]
    again = module.sweep(found, tmp_path, on="local", workers=1)
    assert again.skipped == 5 and again.counts == {"ok": 45} and not again.unfinished
    assert read(tmp_path).num_rows == 50
