"""Whole sweeps: on a local cluster, and on a scheduler with worker processes."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed.versions import get_versions

from onnxexp import OptionError
from onnxexp_sweep.engine import check_versions
from onnxexp_sweep.results import read, rows
from tests.core.commanding import Ran, run

ROOT = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("zoo_models.py")
PATIENCE = 240


def zoo(folder: Path, *names: str, opsets: tuple[int, ...] = (17, 20)) -> Path:
    """Write a zoo file of some of the models of the tests."""
    lines = ["[sweep]", f"opset = {list(opsets)}", 'frontend = ["trace"]', "time = 120"]
    for name in names:
        lines += [f"[models.{name}]", f'target = "{MODELS}:{name}"']
    path = folder / "zoo.toml"
    path.write_text("\n".join(lines), "utf-8")
    return path


def results(folder: Path) -> dict[str, str]:
    """Read the status of each cell."""
    return {row["cell"]: row["status"] for row in rows(read(folder))}


@contextlib.contextmanager
def process(*words: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a process inside the `with`."""
    started = subprocess.Popen([sys.executable, *map(str, words)], cwd=ROOT, text=True, **options)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for stream in (started.stdout, started.stderr):
            if stream is not None:
                stream.close()


def until(fact: Any, text: str) -> Any:
    """Wait until `fact()` is true; return it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := fact():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE} s: {text}")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """Start a scheduler without workers, and provide its address."""
    file = tmp_path / "scheduler.json"
    with process("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard"):
        until(file.exists, "the scheduler starts")
        yield str(json.loads(until(lambda: file.read_text("utf-8"), "its file"))["address"])


@contextlib.contextmanager
def worker(address: str) -> Iterator[subprocess.Popen[str]]:
    """Start a worker without a nanny, so that nothing replaces it."""
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    with process("-m", "dask", "worker", address, *options) as started:
        yield started


@pytest.mark.full
def test_two_local_workers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = zoo(tmp_path, "tiny", "slow", "raises", "crashes", "exits")
    words = (
        "sweep",
        str(file),
        "-o",
        str(tmp_path / "results"),
        "--workers",
        "2",
        "--html",
        str(tmp_path / "page.html"),
        "--json",
    )
    ran = run(capsys, *words)
    assert ran.status == 1, ran.err
    expected = {"tiny": "ok", "slow": "ok", "raises": "failed", "crashes": "crashed", "exits": "crashed"}
    assert results(tmp_path / "results") == {
        f"{name}/{opset}/trace": each for name, each in expected.items() for opset in (17, 20)
    }
    assert ran.document["counts"] == {"ok": 4, "failed": 2, "crashed": 4} and ran.document["skipped"] == 0
    assert "failed: raises/17/trace: load: calling" in ran.err, "a line for each failure, as it comes"
    assert {row["worker"].split()[-1] for row in rows(read(tmp_path / "results"))} == {"0", "1"}
    assert "raises/17/trace" in (tmp_path / "page.html").read_text("utf-8")

    again = run(capsys, *words)
    assert again.status == 0 and again.document["skipped"] == 10 and again.document["counts"] == {}
    retried = run(capsys, *words, "--retry-failed")
    assert retried.document["skipped"] == 4 and retried.document["counts"] == {"failed": 2, "crashed": 4}


@pytest.mark.full
def test_a_killed_worker_loses_no_cell(capsys: pytest.CaptureFixture[str], tmp_path: Path, scheduler: str) -> None:
    """Kill one of two workers by address, its cell and its server; no cell is lost."""
    opsets = tuple(range(15, 24))
    file = zoo(tmp_path, "slow", opsets=opsets)
    command = ("-m", "onnxexp", "sweep", file, "-o", tmp_path / "results", "--on", scheduler.replace("tcp", "dask"), "--json")
    with worker(scheduler), worker(scheduler) as killed, process(*command, stdout=subprocess.PIPE) as sweep:
        family = psutil.Process(killed.pid)
        until(lambda: len(family.children(recursive=True)) >= 2, "the worker runs a cell")
        below = family.children(recursive=True)
        os.kill(killed.pid, signal.SIGKILL)
        out, _ = sweep.communicate(timeout=PATIENCE)
        assert sweep.returncode == 0, out
    assert results(tmp_path / "results") == {f"slow/{opset}/trace": "ok" for opset in opsets}
    assert json.loads(out)["counts"] == {"ok": len(opsets)}
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE], "nothing of the killed worker goes on"


@pytest.mark.full
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_a_stopped_sweep_goes_on(number: int, status: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    opsets = tuple(range(15, 21))
    file, folder = zoo(tmp_path, "slow", opsets=opsets), tmp_path / "results"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    variables = {**os.environ, "TMPDIR": str(temporary)}
    with process("-m", "onnxexp", "sweep", file, "-o", folder, "--workers", "1", env=variables) as sweep:
        until(lambda: len(list((folder / "parts").glob("*.parquet"))) >= 1, "a cell ends")
        sweep.send_signal(number)
        assert sweep.wait(PATIENCE) == status
    assert not list(temporary.glob(".onnxexp-*")), "the files of a cell are left"
    before = {row["key"]: row["finished"] for row in rows(read(folder))}
    assert 1 <= len(before) < len(opsets)
    ran = run(capsys, "sweep", str(file), "-o", str(folder), "--workers", "1", "--json")
    assert ran.document["skipped"] == len(before) and ran.document["counts"] == {"ok": len(opsets) - len(before)}
    after = {row["key"]: row["finished"] for row in rows(read(folder))}
    assert len(after) == len(opsets) and before.items() <= after.items(), "no cell was repeated"


def sweep_on(capsys: pytest.CaptureFixture[str], folder: Path, on: str) -> Ran:
    return run(capsys, "sweep", str(zoo(folder, "tiny")), "-o", str(folder / "results"), "--on", on)


@pytest.mark.parametrize("on", ["here", "dask://", "dask://host", "http://host:8786", "dask://host:port"])
def test_a_wrong_address(capsys: pytest.CaptureFixture[str], tmp_path: Path, on: str) -> None:
    ran = sweep_on(capsys, tmp_path, on)
    assert ran.status == 2 and f"--on {on}: expected local, dask://HOST:PORT" in ran.err


def test_an_unreachable_scheduler(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxexp_sweep.engine._PATIENCE", 1.0)
    ran = sweep_on(capsys, tmp_path, "dask://127.0.0.1:9")
    assert ran.status == 2 and "--on dask://127.0.0.1:9: no dask scheduler answers there" in ran.err
    assert "to fix this, start one by `dask scheduler`" in ran.err


@pytest.mark.full
def test_a_scheduler_without_workers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxexp_sweep.engine._PATIENCE", 5.0)
    ran = sweep_on(capsys, tmp_path, scheduler)
    assert ran.status == 2 and f"the scheduler has no workers; to fix this, start some by `dask worker {scheduler}`" in ran.err


def test_other_versions_are_refused() -> None:
    own = get_versions()
    other = copy.deepcopy(own)
    other["packages"] |= {"distributed": "2020.1.0", "python": "3.9.1.final.0"}
    found = {"client": own, "scheduler": own, "workers": {"tcp://here:1": own}}
    check_versions(found, "dask://here:8786")
    with pytest.raises(OptionError, match="--on dask://here:8786: versions differ, and nothing was run") as caught:
        check_versions(
            {**found, "scheduler": other, "workers": {"tcp://here:1": other, "tcp://here:2": None}}, "dask://here:8786"
        )
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  this command and the scheduler: python 3.") and "and 3.9; distributed" in lines[1]
    assert lines[3] == "  the worker tcp://here:2 does not answer"


def test_a_model_for_no_opset(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = zoo(tmp_path, "tiny")
    file.write_text(file.read_text("utf-8") + "\nopset = [23]\n", "utf-8")
    ran = run(capsys, "sweep", str(file), "-o", str(tmp_path / "results"))
    assert ran.status == 2 and "no model of" in ran.err and "opsets [17, 20]" in ran.err
    assert not (tmp_path / "results").exists()
