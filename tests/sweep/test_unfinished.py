"""Cells that no worker can run stay to do; here without a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import onnxexp_sweep.engine as module
from onnxexp._cli import main
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
    assert again.others == 0 and again.skipped == 5 and again.counts == {"ok": 45} and not again.unfinished
    assert read(tmp_path).num_rows == 50


def test_results_of_another_sweep_are_counted(tmp_path: Path, cluster: list[str]) -> None:
    """Results of another sweep stay, and none counts as a result of this one."""
    first, second = cells(4), cells(6, opsets=2)
    cluster += [cell.name for cell in second]
    module.sweep(first, tmp_path, on="local", workers=1)
    done = module.sweep([cell for cell in second if cell.opset == 10], tmp_path, on="local", workers=1)
    assert (done.others, done.skipped, done.counts) == (4, 0, {"ok": 6})
    assert read(tmp_path).num_rows == 10


def test_a_page_has_the_newest_result_of_a_cell(tmp_path: Path, cluster: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results with older versions stay in the folder."""
    found = cells(1)
    cluster += [cell.name for cell in found]
    for torch in ("2.13.0", "2.14.0"):
        monkeypatch.setattr(module, "worker_versions", lambda client, on, torch=torch: {**VERSIONS, "torch": torch})
        module.sweep(found, tmp_path / "results", on="local", workers=1)
    assert read(tmp_path / "results").num_rows == 2
    assert main(["sweep", "-o", str(tmp_path / "results"), "--html", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "torch 2.14.0" in text and "torch 2.13.0" not in text


def test_an_interrupted_sweep_says_how_to_go_on(
    tmp_path: Path, cluster: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "finished_cells", interrupted)
    zoo = tmp_path / "zoo.toml"
    zoo.write_text('[models.one]\ntarget = "nowhere:one"\n', "utf-8")
    assert main(["sweep", str(zoo), "-o", str(tmp_path / "results")]) == 130
    assert "the same command goes on" in capsys.readouterr().out
