"""`onnxexp verify`, `doctor` and `new-plugin`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxexp
from onnxexp._cli import doctor_command
from onnxexp._model.onnxruntime_session import last_opset
from tests.core.commanding import install, run
from tests.core.tiny import export

Capsys = pytest.CaptureFixture[str]

MODELS = """
    import torch
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self, factor=2.0):
            super().__init__()
            self.factor = factor
        def forward(self, x, y):
            return {"sum": x * self.factor + y, "size": x.shape[0], "nothing": None}

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.ones(2, 1))
        def forward(self, x):
            return x + self.rows

    INPUTS = (torch.ones(2, 3), torch.arange(6.0).reshape(2, 3))

    def right():
        return Scaled(), INPUTS

    def wrong():
        return Scaled(3.0), INPUTS

    def fewer():
        return nn.ReLU(), INPUTS[:1]

    def other():
        class Other(Scaled):
            def forward(self, x, y):
                return x, y, x + y
        return Other(), INPUTS

    def dropout():
        return nn.Sequential(nn.Dropout(0.9)), (torch.ones(100),)

    def fixed():
        return Fixed(), INPUTS[:1]

    class Joined(nn.Module):
        def forward(self, x, y, mask):
            return torch.cat([x, y], 1) * mask

    def joined():
        return Joined(), (torch.ones(2, 3), torch.ones(2, 4), torch.rand(2, 7))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Provide the objects of models.py, beside a model.onnx of its `right`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # restores sys.path, to which the command adds a folder
    Path("models.py").write_text(textwrap.dedent(MODELS))
    defined: dict[str, Any] = {"__name__": "models"}
    exec(textwrap.dedent(MODELS), defined)
    export(*defined["right"](), "model.onnx", dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}})
    return defined


def test_a_file_that_agrees(models: dict[str, Any], capsys: Capsys) -> None:
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--sizes", "batch=5", "--sizes", "batch=1")
    assert ran.status == 0, ran.err
    assert "the example inputs: 3 of 3 outputs agree" in ran.out and "batch=5: 3 of 3" in ran.out and "float32[5, 3]" in ran.out
    document = run(capsys, "verify", "model.onnx", "--against", "models.py:right", "--sizes", "batch=7", "--json").document
    assert document["ok"] is True and [each["sizes"] for each in document["runs"]] == [{}, {"batch": 7}]
    assert document["runs"][1]["outputs"][0]["actual"] == "float32[7, 3]"


def test_a_file_that_differs(models: dict[str, Any], capsys: Capsys) -> None:
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:wrong")
    assert ran.status == 1 and "2 of 3 outputs agree" in ran.out and "expected" in ran.out
    assert run(capsys, "verify", "model.onnx", "--against", "models.py:wrong", "--atol", "2").status == 0
    document = run(capsys, "verify", "model.onnx", "--against", "models.py:wrong", "--json").document
    assert document["ok"] is False and document["runs"][0]["outputs"][0]["max_abs"] == 1.0


def test_a_file_without_dynamic_axes(models: dict[str, Any], capsys: Capsys) -> None:
    export(nn.ReLU(), (torch.ones(2, 3),), "fixed.onnx")
    ran = run(capsys, "verify", "fixed.onnx", "--against", "models.py:fewer", "--sizes", "batch=5")
    assert ran.status == 2 and "no input has a dynamic axis 'batch'; there are none" in ran.err


def test_chosen_names_are_matched_by_position(models: dict[str, Any], capsys: Capsys) -> None:
    names = {"input_names": ["a", "b"], "output_names": ["c", "d"]}
    export(*models["right"](), "named.onnx", dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
    assert run(capsys, "verify", "named.onnx", "--against", "models.py:right").status == 0
    assert run(capsys, "verify", "named.onnx", "--against", "models.py:wrong").status == 1


def test_swapped_names_are_matched_by_name(models: dict[str, Any], capsys: Capsys) -> None:
    program = export(*models["right"]())
    inputs = program.model.graph.inputs
    inputs[:] = [inputs[1], inputs[0]]
    program.save("swapped.onnx")
    assert run(capsys, "verify", "swapped.onnx", "--against", "models.py:right").status == 0


def test_the_model_is_compared_as_for_inference(models: dict[str, Any], capsys: Capsys) -> None:
    export(*models["dropout"](), "dropout.onnx")
    ran = run(capsys, "verify", "dropout.onnx", "--against", "models.py:dropout")
    assert ran.status == 0, ran.out


def test_an_archive_is_compared(models: dict[str, Any], capsys: Capsys) -> None:
    torch.export.save(torch.export.export(models["Scaled"](), models["INPUTS"]), "model.pt2")
    torch.export.save(torch.export.export(models["Scaled"](5.0), models["INPUTS"]), "wrong.pt2")
    assert run(capsys, "verify", "model.onnx", "--against", "model.pt2").status == 0
    assert run(capsys, "verify", "model.onnx", "--against", "wrong.pt2").status == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.onnx", "--against", "models.py:right"], "there is no file missing.onnx"),
        (["models.py", "--against", "models.py:right"], "models.py is not an ONNX model"),
        (["model.onnx", "--against", "models.py:fewer"], "the file's inputs are x, y"),
        (
            ["model.onnx", "--against", "models.py:right", "--sizes", "bath=2"],
            "no input has a dynamic axis 'bath'; there are batch",
        ),
        (["model.onnx", "--against", "models.py:right", "--sizes", "batch"], "expected NAME=SIZE"),
        (
            ["model.onnx", "--against", "models.py:right", "--input", "float32[2,4]"],
            "forward(x, y): missing a required argument: 'y'",
        ),
        (
            ["model.onnx", "--against", "models.py:Scaled", "--input", "float32[2,4]", "--input", "float32[2,4]"],
            "float32[batch, 3]",
        ),
        (["model.onnx"], "--against"),
    ],
)
def test_what_cannot_be_compared(models: dict[str, Any], capsys: Capsys, arguments: list[str], message: str) -> None:
    ran = run(capsys, "verify", *arguments)
    assert ran.status == 2 and message in ran.err and "Traceback" not in ran.err


def test_a_model_that_fails_at_a_size(models: dict[str, Any], capsys: Capsys) -> None:
    program = export(models["Fixed"](), models["INPUTS"][:1])
    program.model.graph.inputs[0].shape = type(program.model.graph.inputs[0].shape)(["batch", 3])
    program.save("loose.onnx")
    ran = run(capsys, "verify", "loose.onnx", "--against", "models.py:fixed", "--sizes", "batch=5")
    assert ran.status == 2 and "the model itself fails at these sizes: RuntimeError" in ran.err


def test_an_axis_that_is_a_sum_of_the_named_ones(models: dict[str, Any], capsys: Capsys) -> None:
    export(*models["joined"](), "joined.onnx", dynamic_shapes=({1: "past"}, {1: "new"}, {1: "past + new"}))
    ran = run(capsys, "verify", "joined.onnx", "--against", "models.py:joined", "--sizes", "past=9", "--sizes", "past=2,new=1")
    assert ran.status == 0 and "past=9" in ran.out, ran


def test_other_axes_keep_their_sizes(models: dict[str, Any], capsys: Capsys) -> None:
    example = ["--input", "float32[2,4]", "--input", "float32[2,4]", "--sizes", "batch=5"]
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:Scaled", *example)
    assert ran.status == 2 and "float32[batch, 3]" in ran.err


def test_other_outputs_are_a_difference(models: dict[str, Any], capsys: Capsys) -> None:
    ran = run(capsys, "verify", "model.onnx", "--against", "models.py:other", "--json")
    assert ran.status == 1 and "the file's outputs are sum, size" in ran.document["runs"][0]["problem"]


# doctor


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder of packs where one sound pack is selected."""
    install(tmp_path / "packs", "tiny", "tests.core.tiny:TINY")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "packs")
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny")
    return tmp_path / "packs"


def findings(capsys: Capsys, kind: str = "problem") -> list[str]:
    return [each["text"] for each in run(capsys, "doctor", "--json").document["findings"] if each["kind"] == kind]


def test_a_sound_installation(clinic: Path, capsys: Capsys) -> None:
    ran = run(capsys, "doctor")
    assert ran.status == 0 and "no problems found" in ran.out
    document = run(capsys, "doctor", "--json").document
    assert document["ok"] is True and document["versions"]["torch"] == doctor_command.installed("torch")
    assert document["versions"]["onnxexp"] == onnxexp.__version__
    assert {"torch", "onnx", "onnx-ir"} <= set(document["needed"]) and document["tested"] == list(doctor_command.TESTED)
    assert {"name": "tiny", "distribution": "tiny-pack", "version": "1.0"} in document["plugins"]


def test_plugins_that_are_wrong(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    install(clinic, "ill", f"ill_{abs(hash(clinic))}:table", source="raise ValueError('out of order')\n")
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny,ill")
    assert any("'ill' (ill-pack 1.0" in text and "out of order" in text for text in findings(capsys))
    assert run(capsys, "doctor").status == 1
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny")
    install(clinic, "tiny", "tests.core.tiny:TINY", distribution="second")
    assert any("is refused" in text and "second 1.0" in text for text in findings(capsys))


def test_plugins_at_odds(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "from onnxexp import SymbolicTable\ntable = SymbolicTable('aten')\ntable.direct({'relu': 'Relu'})\n"
    install(clinic, "again", "again_pack:table", distribution="again", source=table)
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny,again")
    assert any("both lower" in text for text in findings(capsys))


def test_a_pack_that_needs_what_is_not_there(clinic: Path, capsys: Capsys) -> None:
    metadata = clinic / "tiny_pack-1.0.dist-info" / "METADATA"
    metadata.write_text(
        metadata.read_text() + "Requires-Dist: onnxexp>=99\nRequires-Dist: no-such-package\nRequires-Dist: torch<2\n"
    )
    told = findings(capsys)
    assert any(text.startswith("tiny-pack needs onnxexp >=99, but") for text in told)
    assert any("needs no-such-package, which is not installed" in text for text in told)
    assert any(
        text.startswith(f"tiny-pack needs torch <2, but {doctor_command.installed('torch')} is installed") for text in told
    )


def test_versions_that_nobody_tested(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onnxexp._cli.doctor_command.TESTED",
        (
            {"torch": "1.0"},
            {"torch": "1.1", "onnx": doctor_command.installed("onnx")},
        ),
    )
    told = findings(capsys, "note")
    assert any(
        text.startswith(f"torch {doctor_command.installed('torch')} has not been tested") and text.endswith("1.0, 1.1 has")
        for text in told
    )
    assert not any(text.startswith("onnx ") and "has not been tested" in text for text in told)


def test_opsets_that_the_runtime_does_not_load(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXEXP_OPSET", "28")
    monkeypatch.setattr("onnxexp._model.onnxruntime_session.last_opset", lambda: 21)
    assert any("loads models up to opset 21, but opset 28 is configured" in text for text in findings(capsys))
    monkeypatch.setenv("ONNXEXP_OPSET", "21")
    assert not findings(capsys) and any("later opsets (up to 28" in text for text in findings(capsys, "note"))


def test_opsets_that_onnx_does_not_know(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx.defs.onnx_opset_version", lambda: 22)
    monkeypatch.setenv("ONNXEXP_OPSET", "23")
    assert any(" knows opsets up to 22, but opset 23 is configured" in text for text in findings(capsys))
    with pytest.raises(onnxexp.OptionError, match=r"opsets up to 22, the target is opset 23; to fix this, .*opset_version=22"):
        export(nn.ReLU(), (torch.ones(2),))
    monkeypatch.setenv("ONNXEXP_OPSET", "20")
    assert not findings(capsys) and any("models of later opsets (up to 28)" in text for text in findings(capsys, "note"))
    assert export(nn.ReLU(), (torch.ones(2),), opset_version=22).model.graph.opset_imports[""] == 22


def test_the_last_opset_is_right(capsys: Capsys) -> None:
    last = last_opset()
    program = export(nn.ReLU(), (torch.ones(2),), opset_version=last)
    assert torch.equal(program(-torch.ones(2)), torch.zeros(2))
    if last < onnx.defs.onnx_opset_version():
        with pytest.raises(onnxexp.OnnxExporterError, match=f"opset_version={last}"):
            export(nn.ReLU(), (torch.ones(2),), opset_version=last + 1)(torch.ones(2))


def test_a_missing_runtime_and_a_bad_configuration(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = doctor_command.installed
    monkeypatch.setattr(doctor_command, "installed", lambda name: "" if name == "onnxruntime" else installed(name))
    monkeypatch.setenv("ONNXEXP_DEBUG", "perhaps")
    told = findings(capsys)
    assert any("onnxruntime is not installed" in text and "onnxexp[runtime]" in text for text in told)
    assert any("ONNXEXP_DEBUG is 'perhaps'" in text for text in told)


@pytest.mark.parametrize(
    ("marker", "applies"),
    [
        ("", True), ('python_version >= "3.0"', True), ('python_version < "3"', False), ("sys_platform == 'amiga'", False),
        ("sys_platform != 'amiga'", True),
        ('python_version >= "3.0" and sys_platform == "amiga"', False),
        ('platform_machine in "x y"', False), ('extra == "test"', False),
        ('(python_version >= "3.0") and extra == "test"', False), ('python_version < "3" or sys_platform != "amiga"', True),
    ],
)  # fmt: skip
def test_requirements_of_other_platforms_are_not_missed(clinic: Path, capsys: Capsys, marker: str, applies: bool) -> None:
    metadata = clinic / "tiny_pack-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + f"Requires-Dist: no-such-package>=1{'; ' * bool(marker)}{marker}\n")
    told = [need for need in doctor_command.requirements("tiny-pack") if need.package == "no-such-package" and not need.extra]
    assert bool(told) is applies


def test_nightly_and_local_versions_meet_a_requirement(clinic: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = clinic / "tiny_pack-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: torch (>=2.13,<3)\n")
    for present, met in {"2.13.0+cpu": True, "2.14.0.dev20260101": True, "2.9.1": False, "3.0": False}.items():
        monkeypatch.setattr("onnxexp._cli.doctor_command.installed", lambda name, present=present: present)
        told = [text for text in findings(capsys) if text.startswith("tiny-pack needs torch ")]
        assert bool(told) is not met, present


def test_requirements_that_cannot_be_read(clinic: Path, capsys: Capsys) -> None:
    metadata = clinic / "tiny_pack-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: torch is nice\n")
    assert any(text.startswith("the requirements of tiny-pack cannot be checked: ") for text in findings(capsys))


# new-plugin


def test_a_new_plugin(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(capsys, "new-plugin", "sample-pack-for-test", "--json")
    assert ran.status == 0, ran.err
    files = [Path(file) for file in ran.document["files"]]
    assert files and all(file.is_file() for file in files)
    assert Path("sample-pack-for-test/pyproject.toml").is_file()
    again = run(capsys, "new-plugin", "sample-pack-for-test")
    assert again.status == 2 and "onnxexp: " in again.err
    ran = run(capsys, "new-plugin", "other-pack-for-test", "elsewhere")
    assert ran.status == 0 and Path("elsewhere/pyproject.toml").is_file() and "pytest elsewhere" in ran.out


def test_other_weights_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unseeded.py").write_text("import torch\ndef make(): return torch.nn.Linear(3, 2), (torch.ones(2, 3),)\n")
    assert run(capsys, "export", "unseeded.py:make", "-o", "model.onnx").status == 0
    ran = run(capsys, "verify", "model.onnx", "--against", "unseeded.py:make")
    assert ran.status == 1 and "the file's weights differ from the model's: weight, bias" in ran.out


def test_weights_in_another_order_are_the_same(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export transposes weights, and sorts the gates of an RNN."""
    monkeypatch.chdir(tmp_path)
    seeded = "import torch\ndef make():\n    torch.manual_seed(0)\n    return torch.nn.Linear(3, 2), (torch.ones(2, 3),)\n"
    Path("seeded.py").write_text(seeded)
    assert run(capsys, "export", "seeded.py:make", "-o", "model.onnx").status == 0
    model = onnx.load("model.onnx")
    for weight in model.graph.initializer:
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight)[::-1], weight.name))
    onnx.save(model, "model.onnx")
    ran = run(capsys, "verify", "model.onnx", "--against", "seeded.py:make")
    assert ran.status == 1 and "expected" in ran.out and "weights" not in ran.out
    assert run(capsys, "verify", "model.onnx", "--against", "seeded.py:make", "--json").document["differing_weights"] == []
