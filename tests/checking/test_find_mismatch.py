"""`find_mismatch` on correct models and bad input, its memory and its scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp._checking.exported import opener
from onnxexp._checking.graph_comparison import Settings
from onnxexp._checking.onnx_slices import SlicedRun
from onnxexp._neutral_graph import SourceLocation
from tests.checking import networks
from tests.checking.test_planted_faults import gelu_by_tanh, half_sigmoid


@pytest.mark.parametrize("make", [networks.bert, networks.llama, networks.resnet, networks.unet, networks.branching])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_correct_model(make: Any, capture: str) -> None:
    if make is networks.branching and capture == "trace":
        pytest.skip("torch.cond and while_loop need torch.export")
    torch.manual_seed(0)
    report = networks.quietly_exported(*make(), capture=capture).find_mismatch()
    assert report.ok and not report.faults and report.first is None and report.origin is None, str(report)
    assert report.worst is not None and report.worst.total is not None
    assert f"largest error at %{report.worst.path}" in str(report) and "no node differs" in str(report)
    checked = sum(each.status == "ok" for each in report.nodes)
    assert checked >= 0.8 * len(report.nodes), str(report)


class Gathering(torch.nn.Module):
    """A model with a list of tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: list[torch.Tensor] = []
        for index in range(x.shape[0]):
            rows.append(x[index] * index)
        return torch.stack(rows)


def test_lists_are_compared_element_by_element() -> None:
    program = onnxexp.export(Gathering(), (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), capture="script")
    report = program.find_mismatch(torch.rand(4, 2))
    assert report.ok and not report.faults, str(report)
    settings = Settings(opener("onnxruntime", lambda model, options: model))
    ones = torch.ones(2)
    assert not settings.compare("x", [], torch.tensor([], dtype=torch.int64)).problem
    assert not settings.compare("x", [2, 3], torch.tensor([2, 3])).problem
    assert settings.compare("x", [2, 3], torch.tensor([2, 4])).name == "x[1]"
    assert settings.compare("x", [ones, ones], [ones, ones * 2]).name == "x[1]"
    assert settings.compare("x", [ones], [ones, ones]).problem == "expected 1 values, got 2"


def test_errors_along_the_graph() -> None:
    torch.manual_seed(0)
    report = networks.quietly_exported(*networks.bert()).find_mismatch()
    growth = report.growth()
    assert [name for name, _, _ in growth] == [each.name for each in report.nodes if each.total]
    modules, operators = report.by_module(), report.by_operator()
    assert sum(count for count, _, _ in modules.values()) == len(report.nodes)
    assert max(worst for _, worst, _ in operators.values()) == max(local for _, _, local in growth) > 0
    assert "encoder.layer.1.output.dense" in modules and "aten::layer_norm" in operators


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)
    table("gelu")(gelu_by_tanh)
    program = networks.quietly_exported(*networks.bert(), plugins=[table, ...])
    whole, calls = program.find_mismatch(), []
    values = SlicedRun.values
    monkeypatch.setattr(SlicedRun, "values", lambda self, wanted: calls.append(1) or values(self, wanted))
    small = program.find_mismatch(chunk_bytes=4096)
    assert len(calls) > 20 and small.chunk_bytes == 4096
    assert [(each.path, each.status) for each in whole.nodes] == [(each.path, each.status) for each in small.nodes]


def test_the_weights_of_a_chunk_count(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
    program = networks.quietly_exported(layers, {"input": torch.randn(1, 64)})
    loaded: list[int] = []
    sliced = SlicedRun._run

    def counted(self: Any, nodes: Any, targets: Any) -> None:
        loaded.append(len(nodes))
        sliced(self, nodes, targets)

    monkeypatch.setattr(SlicedRun, "_run", counted)
    assert program.find_mismatch(chunk_bytes=2 * 64 * 64 * 4).ok
    assert len(loaded) >= 4 and max(loaded) <= 2


def test_at_other_inputs() -> None:
    """A fault that the example does not show."""
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("relu")
    def identity(op: Any, x: Any) -> Any:
        return op.Identity(x)

    program = networks.quietly_exported(torch.nn.ReLU(), {"input": torch.ones(3)}, plugins=[table, ...])
    assert program.find_mismatch().ok
    report = program.find_mismatch((torch.tensor([1.0, -1.0, 2.0]),))
    assert report.first is not None and report.first.op == "aten::relu"
    with pytest.raises(onnxexp.VerificationError, match="aten::relu"):
        report.raise_for_difference()


def test_two_faults_are_both_there() -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)
    table("sigmoid")(half_sigmoid)
    program = networks.quietly_exported(
        torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Linear(3, 3), torch.nn.Sigmoid()),
        {"input": torch.randn(2, 3)},
        plugins=[table, ...],
    )
    report = program.find_mismatch()
    assert [each.op for each in report.faults] == ["aten::sigmoid"] * 2 and "also: %sigmoid_1 = aten::sigmoid" in str(report)
    linear = report.nodes[1]
    assert linear.status == "ok" and linear.total is not None and linear.total.problem, "an error that it passes on"


def test_the_script_of_a_fault_runs_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)
    table("gelu")(gelu_by_tanh)
    report = networks.quietly_exported(*networks.bert(), plugins=[table, ...]).find_mismatch()
    script = report.export_repro(tmp_path / "repro")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "gelu: DIFFERENT, max abs error" in done.stdout, done.stdout + done.stderr
    assert "torch.ops.aten.gelu.default(v0)" in script.read_text()


def test_names_in_the_script_of_a_fault_are_no_code(tmp_path: Path) -> None:
    table = onnxexp.SymbolicTable("aten", override=True)
    table("gelu")(gelu_by_tanh)
    program = networks.quietly_exported(torch.nn.GELU(), {"input": torch.randn(3)}, plugins=[table, ...])
    report = program.find_mismatch()
    assert report.first is not None
    text, node = "x\nprint('ran')\rprint('ran')\0", report.first.node
    node.where = SourceLocation(scope=text, module=text, file=text, line=1, code=text)
    node.args[0].name = node.outputs[0].name = text
    (tmp_path / "file").write_text("")
    with pytest.raises(onnxexp.SerializeError, match="cannot write .*file.*Choose another place"):
        report.export_repro(tmp_path / "file" / "folder")
    script = report.export_repro(tmp_path)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "max abs error" in done.stdout and "ran" not in done.stdout, done
    assert r"x\nprint('ran')\rprint('ran')\x00" in script.read_text()


def test_the_script_of_an_operator_that_is_registered_elsewhere(tmp_path: Path) -> None:
    with torch.library._scoped_library("checkedhere", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        table = onnxexp.SymbolicTable("checkedhere")

        @table("twice")
        def thrice(op: Any, x: Any) -> Any:
            return op.Mul(x, 3.0)

        program = networks.quietly_exported(lambda x: torch.ops.checkedhere.twice(x), {"x": torch.ones(2)}, plugins=[table, ...])
        script = program.find_mismatch().export_repro(tmp_path)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "torch: (2,) [2.0, 2.0]" in done.stdout and "ONNX:  (2,) [3.0, 3.0]" in done.stdout, done


def test_no_fault_has_no_script(tmp_path: Path) -> None:
    report = networks.quietly_exported(torch.nn.ReLU(), {"input": torch.ones(3)}).find_mismatch()
    with pytest.raises(onnxexp.OptionError, match="there is no fault"):
        report.export_repro(tmp_path)


def test_a_capture_that_fixed_a_size() -> None:
    """The captured graph itself is wrong at other sizes: no node differs."""
    from tests.checking.test_verify_inputs import frozen

    report = frozen().find_mismatch((torch.randn(2, 5),))
    assert not report.ok and not report.faults and "the captured graph itself computes another result" in str(report)


def test_inputs_that_do_not_fit() -> None:
    program = networks.quietly_exported(torch.nn.Linear(4, 3), {"input": torch.randn(2, 4)})
    with pytest.raises(onnxexp.OnnxExporterError, match=r"input is float32\[2, 4\], the call gives float32\[2, 5\]"):
        program.find_mismatch((torch.randn(2, 5),))
    with pytest.raises(onnxexp.OnnxExporterError, match="positional arguments|too many"):
        program.find_mismatch((torch.randn(2, 4), 1))


def test_an_operator_without_a_kernel() -> None:
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("tanh")
    def own(op: Any, x: Any) -> Any:
        return op.domain("vendor.ops", 1).Tanh2(x)

    program = networks.quietly_exported(torch.nn.Tanh(), {"input": torch.ones(3)}, plugins=[table, ...])
    for call in (program.verify, program.find_mismatch):
        with pytest.raises(onnxexp.OnnxExporterError, match=r"(?s)ONNX Runtime .* does not take this model.*Tanh2"):
            call()


def test_a_program_that_no_export_made() -> None:
    program = networks.quietly_exported(torch.nn.ReLU(), {"input": torch.ones(3)})
    program.record = None
    with pytest.raises(onnxexp.OptionError, match="no captured graph to compare with; to fix this,"):
        program.find_mismatch()
