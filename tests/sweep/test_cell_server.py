"""Cells in their own processes: each failure is a result, and the next cell runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from onnxexp_sweep.cell_list import cells_of
from onnxexp_sweep.versions import installed
from onnxexp_sweep.worker import CellServer, EnvironmentChanged
from onnxexp_sweep.zoo import Model, Zoo

ROOT = Path(__file__).parents[2]
RunModel = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[CellServer]:
    """Provide one server for all cells of this file."""
    server = CellServer()
    yield server
    server.close()


def job(name: str, frontend: str = "trace", *, time: float = 120, memory: int | None = None, **model: Any) -> dict[str, Any]:
    """Return the job of one of the models of the tests."""
    zoo = Zoo(ROOT, (Model(name, f"tests.sweep.zoo_models:{name}", **model),))
    (cell,) = cells_of(zoo, [20], [frontend], time=time, memory=memory)
    return cell.job(installed())


@pytest.fixture(scope="module")
def run_model(server: CellServer) -> RunModel:
    """Run one of the models of the tests."""

    def run(name: str, frontend: str = "trace", **options: Any) -> dict[str, Any]:
        outcome = server.run(job(name, frontend, **options))
        assert outcome is not None, server.errors()
        return outcome

    return run


def test_the_versions_are_those_of_the_environment(server: CellServer) -> None:
    assert server.versions == installed() and {"python", "torch", "onnxexp", "onnxexp-plugin-aten"} <= server.versions.keys()


def test_a_model_that_works(run_model: RunModel) -> None:
    outcome = run_model("tiny", sizes=({"batch": 1}, {"batch": 7}))
    assert outcome["status"] == "ok", outcome
    assert outcome["nodes"] == 2 and outcome["file_bytes"] > 4 * 9 * 4 and outcome["peak_bytes"] > 50_000_000
    assert {"batch is 1", "batch is 7"} <= {*outcome["verified"]} and len(outcome["verified"]) >= 4, "and other sizes"
    assert 0 <= outcome["max_error"] < 1e-5
    steps = [outcome[f"{step}_seconds"] for step in ("load", "export", "write", "check", "verify")]
    assert sum(steps) <= outcome["seconds"] and "capture" in outcome["stages"]


def test_a_difference(run_model: RunModel) -> None:
    outcome = run_model("wrong", verify="random", options={"check_sizes": False})
    assert (outcome["status"], outcome["step"]) == ("differs", "verify")
    assert "disagrees with the original in 1 of 1 outputs" in outcome["reason"]


def test_the_tolerances_are_the_models_own(run_model: RunModel) -> None:
    outcome = run_model("wrong", verify="random", options={"check_sizes": False}, rtol=0.0, atol=1e3)
    assert outcome["status"] == "ok" and 0 < outcome["max_error"] < 1e3


def test_an_axis_that_follows_from_others(run_model: RunModel) -> None:
    """The size of `past + new` follows from those of its parts, in `verify` too."""
    outcome = run_model("masked", "export", sizes=({"past": 7}, {"past": 1, "new": 9}))
    assert outcome["status"] == "ok", outcome
    assert {"past is 7", "past is 1, new is 9"} < {*outcome["verified"]} and not outcome["not_verified"]
    outcome = run_model("masked", "export", sizes=({"past + new": 9},))
    assert "the axis 'past + new', which is not dynamic; choose from: new, past" in outcome["reason"]


def test_a_cell_computes_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    server = CellServer()
    outcome = server.run(job("threads"))
    server.close()
    assert outcome is not None and "threads: 1, wave: False" in outcome["reason"]


def test_what_is_preloaded_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    server = CellServer(["wave"])
    outcome = server.run(job("threads"))
    server.close()
    assert outcome is not None and "threads: 2, wave: True" in outcome["reason"]
    expected = r"preload has 'no_module', which cannot be imported \(ModuleNotFoundError: No module named 'no_module'\) on "
    with pytest.raises(EnvironmentChanged, match=expected):
        CellServer(["no_module"])


def test_a_factory_that_raises(run_model: RunModel) -> None:
    outcome = run_model("raises")
    assert (outcome["status"], outcome["step"], outcome["kind"]) == ("failed", "load", "OptionError")
    assert "KeyError: 'no such weights'" in outcome["reason"] and "zoo_models.py:" in outcome["reason"]
    assert "--traceback" not in outcome["reason"] and 'in raises\n    raise KeyError("no such weights")' in outcome["stderr"]


def test_an_unknown_model_and_axis(run_model: RunModel) -> None:
    assert "did you mean 'tiny'" in run_model("tinny")["reason"]
    outcome = run_model("tiny", sizes=({"bach": 3},))
    assert outcome["status"] == "failed" and "the axis 'bach' (did you mean 'batch'?), which is not dynamic" in outcome["reason"]


def test_a_crash(run_model: RunModel) -> None:
    outcome = run_model("crashes")
    assert (outcome["status"], outcome["step"]) == ("crashed", "load")
    assert "by signal 11 (SIGSEGV) in the step 'load'" in outcome["reason"]
    assert outcome["stderr"].startswith("about to crash") and "zoo_models.py" in outcome["stderr"], "faulthandler's traceback"


def test_an_end_without_a_result(run_model: RunModel) -> None:
    assert "with status 3 in the step 'load'" in run_model("exits")["reason"]


def test_a_hang_is_ended_with_its_children(run_model: RunModel) -> None:
    begin = time.monotonic()
    outcome = run_model("hangs", time=5)
    assert outcome["status"] == "timeout" and outcome["reason"] == "ended after the limit of 5 s"
    assert time.monotonic() - begin < 60
    _, number = outcome["stderr"].split()
    assert not psutil.pid_exists(int(number)) or psutil.Process(int(number)).status() == psutil.STATUS_ZOMBIE


def test_memory_is_limited(run_model: RunModel) -> None:
    outcome = run_model("eats", memory=1_500_000_000)
    assert outcome["status"] == "memory" and "the limit is 1.50 GB" in outcome["reason"]
    assert 1_500_000_000 < outcome["peak_bytes"] < 3_000_000_000


def test_a_folder_that_the_worker_lacks(server: CellServer) -> None:
    outcome = server.run({**job("tiny"), "folder": "/nowhere"})
    assert outcome is not None and "the zoo's folder /nowhere on" in outcome["reason"] and "shared disk" in outcome["reason"]


def test_the_end_of_a_worker_ends_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server and its child end with standard input, and the cell's files go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = CellServer()
    process = psutil.Process(server._process.pid)
    stream = server._process.stdin
    assert stream is not None
    stream.write(json.dumps(job("hangs", time=600)).encode() + b"\n")
    stream.flush()
    deadline = time.monotonic() + 60
    while len(family := process.children(recursive=True)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(family) >= 2, "the cell and its own child"
    assert list(tmp_path.glob(".onnxexp-*/record.json"))
    server.close()
    assert not list(tmp_path.glob(".onnxexp-*"))
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.full
def test_a_model_of_transformers(server: CellServer, tmp_path: Path) -> None:
    """A target `hf:` with random weights runs; paths begin at the zoo's folder."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 100}
    config = transformers.BertConfig(**sizes, architectures=["BertForSequenceClassification"])
    config.save_pretrained(tmp_path / "bert")
    model = Model("bert", "hf:bert/config.json", task="text-classification")
    (cell,) = cells_of(Zoo(tmp_path, (model,)), [20], ["export"], time=240)
    outcome = server.run(cell.job(installed()))
    assert outcome is not None and outcome["status"] == "ok", outcome
    assert outcome["nodes"] > 10 and len(outcome["verified"]) >= 2
