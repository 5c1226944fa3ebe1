"""`onnxexp explain`, `diff`, `verify --find-mismatch`, and options of `export`.

The options are `--verify`, `--strip` and `--report`.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch

import onnxexp
from tests.core.commanding import Ran, run
from tests.report.test_document import parsed

Capsys = pytest.CaptureFixture[str]

MODELS = """
    import torch
    import onnxexp

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return torch.tanh(self.linear(x)) * 2

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.last = Block(), torch.nn.Linear(8, 2)

        def forward(self, x, y):
            hidden = self.block(x)
            return {"first": self.last(hidden), "second": hidden + y}

    table = onnxexp.SymbolicTable("aten", override=True)

    @table("tanh")
    def wrong_tanh(op, x):
        return op.Sigmoid(x)

    def right():
        torch.manual_seed(0)
        return {
            "model": Model(), "args": (torch.randn(3, 8), torch.randn(3, 8)),
            "dynamic_shapes": {"x": {0: "batch"}, "y": {0: "batch"}},
        }

    def wrong():
        return {**right(), "plugins": [table, ...]}
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a working directory with models.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # restores sys.path, to which the command adds a folder
    monkeypatch.delitem(sys.modules, "models", raising=False)  # another test's, whose name the module would not get
    (tmp_path / "models.py").write_text(textwrap.dedent(MODELS))
    return tmp_path


def exported(capsys: Capsys, factory: str, *more: str, name: str = "model.onnx") -> Ran:
    return run(capsys, "export", f"models.py:{factory}", "-o", name, *more)


def test_a_failed_verification_shows_the_node(models: Path, capsys: Capsys) -> None:
    (models / "model.onnx").write_bytes(b"an older file")
    ran = exported(capsys, "wrong", "--verify")
    assert ran.status == 1 and "%tanh = aten::tanh -> Sigmoid (block/Sigmoid)" in ran.out, ran.out + ran.err
    assert "in block (Block): return torch.tanh(self.linear(x)) * 2" in ran.out and "models.wrong_tanh" in ran.out
    assert ran.out.count("%first") <= 1 and "nothing is written: model.onnx stays as it was" in ran.out
    assert (models / "model.onnx").read_bytes() == b"an older file"


def test_a_file_is_located(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "wrong").status == 0
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--find-mismatch", "--repro", "repro")
    assert ran.status == 1 and "%tanh = aten::tanh -> Sigmoid (block/Sigmoid)" in ran.out
    assert "wrong_tanh" in ran.out, "what the file says, not what an export now would do"
    assert (models / "repro" / "repro.py").is_file() and f"wrote {Path('repro/repro.py')}" in ran.out
    document = run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--find-mismatch", "--json").document
    located = document["mismatch"]
    assert (located["node"], located["op"]) == ("tanh", "aten::tanh") and located["symbolic"].endswith(".wrong_tanh")


def test_a_right_file_is_confirmed(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right", "--verify", "sizes").status == 0
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--find-mismatch")
    assert ran.status == 0 and "no node differs" in ran.out and "largest error at %" in ran.out


def test_outputs_in_another_order(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right").status == 0
    model = onnx.load("model.onnx")
    outputs = list(model.graph.output)
    del model.graph.output[:]
    model.graph.output.extend(reversed(outputs))
    onnx.save(model, "reversed.onnx")
    ran = run(capsys, "verify", "reversed.onnx", "--against", "models.py:right", "--find-mismatch")
    assert ran.status == 0 and "2 of 2 outputs agree" in ran.out, "names decide"
    for output, name in zip(model.graph.output, ("a", "b"), strict=True):
        for node in model.graph.node:
            node.output[:] = [name if each == output.name else each for each in node.output]
        output.name = name
    onnx.save(model, "renamed.onnx")
    ran = run(capsys, "verify", "renamed.onnx", "--against", "models.py:right")
    assert ran.status == 1 and "expected float32[3, 2], got float32[3, 8]" in ran.out, ran.out


def test_a_file_that_another_exporter_wrote(models: Path, capsys: Capsys) -> None:
    defined: dict[str, Any] = {"__name__": "models"}
    exec(textwrap.dedent(MODELS), defined)
    made = defined["right"]()
    torch.onnx.export(made["model"], made["args"], "other.onnx", dynamo=False, input_names=["x", "y"], verbose=False)
    ran = run(capsys, "verify", "other.onnx", "--against", "models.py:right", "--find-mismatch")
    assert ran.status == 2 and "the file's values have other names" in ran.err and "Traceback" not in ran.err
    ran = run(capsys, "explain", "other.onnx")
    assert ran.status == 2 and "other.onnx has no origins of its nodes" in ran.err


def test_explain(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right").status == 0
    table = run(capsys, "explain", "model.onnx")
    assert table.status == 0 and "block/Tanh" in table.out and "onnxexp_aten" in table.out
    document = run(capsys, "explain", "model.onnx", "--json").document
    assert len(document) == len(onnx.load("model.onnx").graph.node)
    for name in ("tanh", "%tanh", "block/Tanh", "Tanh"):
        ran = run(capsys, "explain", "model.onnx", name)
        assert ran.status == 0 and "module      block (Block)" in ran.out, ran.out + ran.err
        assert "torch       %tanh = aten::tanh" in ran.out and "source      models.py:11" in ran.out
    ran = run(capsys, "explain", "model.onnx", "tahn")
    assert ran.status == 2 and "has no node or value 'tahn'" in ran.err and "tanh" in ran.err
    ran = run(capsys, "explain", "models.py")
    assert ran.status == 2 and "models.py is not an ONNX model" in ran.err and "Traceback" not in ran.err


def test_a_pass_is_named(capsys: Capsys, tmp_path: Path) -> None:
    class Replacing:
        name = "replacing"

        @onnxexp.hookimpl
        def post_pass(self) -> Any:
            def replace_relu(model: ir.Model) -> None:
                node = next(node for node in model.graph if node.op_type == "Relu")
                made = ir.node("Max", [node.inputs[0], node.inputs[0]], outputs=[ir.Value(name="made")])
                model.graph.insert_after(node, made)
                ir.convenience.replace_all_uses_with(node.outputs[0], made.outputs[0])
                model.graph.remove(node)

            return replace_relu

    path = tmp_path / "model.onnx"
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    onnxexp.export(layers, (torch.ones(2),), path, plugins=[Replacing(), ...])
    ran = run(capsys, "explain", str(path), "made")
    assert ran.status == 0 and "lowered by  the pass inline Replacing/replace-relu" in ran.out, ran.out
    assert onnxexp.export(layers, (torch.ones(2),)).model.graph[0].metadata_props.get("onnxexp.pass") is None


def test_strip(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right", name="full.onnx").status == 0
    assert exported(capsys, "right", "--strip").status == 0
    stripped, full = onnx.load("model.onnx"), onnx.load("full.onnx")
    assert not any(node.metadata_props for node in stripped.graph.node) and all(node.metadata_props for node in full.graph.node)
    for node in full.graph.node:
        del node.metadata_props[:]
    assert [node.SerializeToString() for node in stripped.graph.node] == [node.SerializeToString() for node in full.graph.node]
    assert run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--find-mismatch").status == 0
    assert "models.py" not in Path("model.onnx").read_bytes().decode("latin-1")


def test_diff(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right", name="a.onnx").status == 0
    assert exported(capsys, "right", name="b.onnx").status == 0
    same = run(capsys, "diff", "a.onnx", "b.onnx")
    assert same.status == 0 and "the models are equal" in same.out
    assert exported(capsys, "wrong", "--opset", "21", name="c.onnx").status == 0
    ran = run(capsys, "diff", "a.onnx", "c.onnx")
    assert ran.status == 1 and "opsets: ai.onnx 20 -> ai.onnx 21" in ran.out and "[block]" in ran.out
    assert "  - %tanh: float32[batch, 8] = Tanh(" in ran.out and "  + %tanh: float32[batch, 8] = Sigmoid(" in ran.out
    assert "[last]" not in ran.out, "an unchanged module is left out"
    document = run(capsys, "diff", "a.onnx", "c.onnx", "--json").document
    assert not document["equal"] and [module["scope"] for module in document["modules"]] == ["block"]
    ran = run(capsys, "diff", "a.onnx", "missing.onnx")
    assert ran.status == 2 and "there is no file missing.onnx" in ran.err


def test_diff_of_weights(models: Path, capsys: Capsys) -> None:
    assert exported(capsys, "right", name="a.onnx").status == 0
    model = onnx.load("a.onnx")
    (weight,) = (each for each in model.graph.initializer if each.name == "last.weight")
    weight.raw_data = bytes(len(weight.raw_data))
    onnx.save(model, "b.onnx")
    ran = run(capsys, "diff", "a.onnx", "b.onnx")
    assert ran.status == 1 and "last.weight: other values (float32[2, 8])" in ran.out


def test_a_report_beside_the_file(models: Path, capsys: Capsys) -> None:
    ran = exported(capsys, "right", "--report", "report.html", "--errors", "--profile")
    assert ran.status == 0 and "report " in ran.out
    made: Any = parsed(models / "report.html")
    assert made["title"] == "Model" and made["mismatch"]["ok"] and made["profile"]["operators"]
    ran = exported(capsys, "wrong", "--verify", "--report", "wrong.html", name="wrong.onnx")
    assert ran.status == 1 and not (models / "wrong.onnx").exists()
    assert not parsed(models / "wrong.html")["mismatch"]["ok"], "a page of the fault, though no file is written"


def test_a_report_without_its_plugin(models: Path, capsys: Capsys) -> None:
    (models / "onnxexp.toml").write_text('disable = ["report"]')
    ran = exported(capsys, "right", "--report", "report.html")
    assert ran.status == 2 and "onnxexp-plugin-report" in ran.err and not (models / "report.html").exists()


def test_the_metadata_of_a_node_are_the_programs() -> None:
    program = onnxexp.export(torch.nn.Sequential(torch.nn.Tanh()), (torch.ones(2),))
    (node,) = program.model.graph
    assert node.metadata_props["onnxexp.op"] == "aten::tanh" and node.metadata_props["onnxexp.scope"] == "0"


def test_a_report_of_operators_without_symbolics(models: Path, capsys: Capsys) -> None:
    with torch.library._scoped_library("checkedreport", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x * 2, "CompositeExplicitAutograd")
        (models / "odd.py").write_text(
            "import torch\n\n\nclass Odd(torch.nn.Module):\n    def forward(self, x):\n"
            "        return torch.ops.checkedreport.odd(torch.ops.checkedreport.odd(x).sin())\n\n\n"
            "def make():\n    return Odd(), (torch.ones(2),)\n"
        )
        ran = run(capsys, "export", "odd.py:make", "-o", "odd.onnx", "--report", "odd.html")
    assert ran.status == 2 and "checkedreport::odd (2x)" in ran.err and not (models / "odd.onnx").exists()
    made = parsed(models / "odd.html")
    assert [row["o"] for row in made["captured"] if row.get("st") == "unsupported"] == ["checkedreport::odd"] * 2
    (problem,) = made["problems"]
    assert "write a symbolic for it" in problem and made["mismatch"] is None
