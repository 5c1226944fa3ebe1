"""`onnxexp export` and `check`: targets, options, output and error messages."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import save_file

from tests.core.commanding import install, run, separately

MODELS = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1

    class Two(nn.Module):
        def forward(self, x, *, mask, scale=2.0):
            return torch.where(mask > 0, x * scale, x)

    class Needs(nn.Module):
        def __init__(self, width):
            super().__init__()

    class Outer:
        @staticmethod
        def make():
            return Model(), torch.ones(2, 3)

    X = torch.ones(2, 3)
    instance = Model()
    number = 3

    def model():
        return Model()

    def pair():
        return Model(), (X,)

    def triple():
        return Two(), (X,), {"mask": torch.zeros(2, 3)}

    def everything():
        named = {"input_names": ["image"], "dynamic_axes": {"image": {0: "n"}}}
        return {"model": Model(), "args": (X,), "opset_version": 15, **named}

    def misspelled():
        return {"model": Model(), "arg": (X,)}

    def headless():
        return {"args": (X,)}

    def program():
        return torch.export.export(Model(), (X,))

    def takes(width):
        return Model()

    def fails():
        raise ValueError("no weights here")

    def unsupported():
        class Gaps(nn.Module):
            def forward(self, x):
                return torch.special.i0e(x) + torch.special.i0e(x * 2)
        return Gaps(), (X,)

    def chatty():
        class Chatty(Model):
            def forward(self, x):
                print("said by the model")
                return super().forward(x)
        print("said by the factory")
        return Chatty(), (X,)

    def writing():
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(()))
            def forward(self, x):
                self.count.add_(1)
                return x + self.count
        return Counter(), (X,)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Provide a module of models in the working directory, with a pack installed."""
    packs, here = tmp_path / "packs", tmp_path / "project"
    install(packs, "tiny", "tests.core.tiny:TINY")
    here.mkdir()
    name = f"models_{abs(hash(tmp_path))}"
    (here / f"{name}.py").write_text(textwrap.dedent(MODELS))
    monkeypatch.syspath_prepend(packs)
    monkeypatch.chdir(here)
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


Capsys = pytest.CaptureFixture[str]


# Targets


@pytest.mark.parametrize(
    ("factory", "more"),
    [
        ("model", ["--input", "float32[2,3]"]),
        ("model", ["--input", "x=float32[2,3]"]),
        ("instance", ["--input", "float32[2,3]"]),
        ("Model", ["--input", "float32[2,3]"]),
        ("Outer.make", []),
        ("pair", []),
        ("pair", ["--input", "float32[5,3]"]),
        ("triple", []),
        ("triple", ["--input", "float32[2,3]", "--input", "mask=int64[2,3]", "--input", "scale=3.0"]),
        ("everything", []),
        ("program", []),
    ],
)
def test_targets(project: str, capsys: Capsys, factory: str, more: list[str]) -> None:
    ran = run(capsys, "export", f"{project}:{factory}", "-o", "model.onnx", "--verify", *more)
    assert ran.status == 0, ran.err
    onnx.checker.check_model("model.onnx", full_check=True)
    assert "verified: every output agrees with the model's" in ran.out
    if "float32[5,3]" in more:
        assert "float32[5, 3]" in ran.out


def test_a_file(project: str, capsys: Capsys, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "beside_it.py").write_text("SIZE = 7")
    script = tmp_path / "elsewhere" / "script.py"
    script.write_text("import torch\nfrom beside_it import SIZE\ndef make():\n    return torch.nn.ReLU(), torch.ones(SIZE)\n")
    ran = run(capsys, "export", f"{script}:make", "-o", "model.onnx")
    assert ran.status == 0 and "float32[7]" in ran.out, ran.err


def test_a_file_named_like_a_package_of_ours(project: str, capsys: Capsys) -> None:
    Path("odd").mkdir()
    Path("odd/onnx_ir.py").write_text("import torch\ndef make():\n    return torch.nn.ReLU(), torch.ones(2)\n")
    assert run(capsys, "export", "odd/onnx_ir.py:make", "-o", "model.onnx").status == 0
    assert hasattr(sys.modules["onnx_ir"], "Model")


def test_a_file_that_is_no_torchscript(project: str, capsys: Capsys) -> None:
    torch.save({"weight": torch.ones(2)}, "weights.pt")
    Path("text.pt").write_text("text")
    for name in ("weights.pt", "text.pt"):
        ran = run(capsys, "export", name, "-o", "model.onnx", "--input", "float32[2]")
        assert ran.status == 2 and f"{name} is no TorchScript file" in ran.err and "write a factory" in ran.err


def test_a_torchscript_file_without_inputs(project: str, capsys: Capsys) -> None:
    torch.jit.script(torch.nn.ReLU()).save("relu.pt")
    ran = run(capsys, "export", "relu.pt", "-o", "model.onnx")
    assert ran.status == 2 and "relu.pt has no example inputs; the model takes (input: Tensor)" in ran.err


def test_an_archive(project: str, capsys: Capsys) -> None:
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), "relu.pt2")
    ran = run(capsys, "export", "relu.pt2", "-o", "model.onnx", "--verify")
    assert ran.status == 0 and "outputs  output: float32[2]" in ran.out, ran.err


# Options


def loaded() -> onnx.ModelProto:
    return onnx.load("model.onnx", load_external_data=False)


def sizes(value: onnx.ValueInfoProto) -> list[object]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_options_reach_the_export(project: str, capsys: Capsys) -> None:
    ran = run(
        capsys, "export", f"{project}:pair", "-o", "model.onnx", "--opset", "17", "--dynamic", "x:0=batch,1=width",
        "--input-name", "image", "--output-name", "result", "--print", "--debug",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    graph = loaded().graph
    assert loaded().opset_import[0].version == 17
    assert [value.name for value in (*graph.input, *graph.output)] == ["image", "result"]
    assert sizes(graph.input[0]) == ["batch", "width"]
    assert "graph main" in ran.out and "nodes    2 at opset 17" in ran.out and "plugins  tiny-pack 1.0" in ran.out


def test_the_command_line_wins_over_the_factory(project: str, capsys: Capsys) -> None:
    assert run(capsys, "export", f"{project}:everything", "-o", "model.onnx").status == 0
    assert loaded().opset_import[0].version == 15 and sizes(loaded().graph.input[0]) == ["n", 3]
    assert (
        run(capsys, "export", f"{project}:everything", "-o", "model.onnx", "--opset", "18", "--dynamic", "image:1=w").status == 0
    )
    assert loaded().opset_import[0].version == 18 and sizes(loaded().graph.input[0]) == [2, "w"]


def test_dynamic_axes_without_names_and_dynamic_numbers(project: str, capsys: Capsys) -> None:
    assert run(capsys, "export", f"{project}:pair", "-o", "model.onnx", "--dynamic", "x:0", "--dynamic", "x:1=w").status == 0
    assert sizes(loaded().graph.input[0]) == ["x_dim_0", "w"]
    given = ["--input", "float32[2,3]", "--input", "mask=float32[2,3]", "--input", "scale=3.0", "--dynamic", "scale=factor"]
    ran = run(capsys, "export", f"{project}:triple", "-o", "model.onnx", "--verify", *given)
    assert ran.status == 0, ran.err
    assert [value.name for value in loaded().graph.input] == ["x", "mask", "scale"]


def test_one_file_or_two(project: str, capsys: Capsys) -> None:
    Path("big.py").write_text("import torch\ndef make():\n    return torch.nn.Linear(64, 64), torch.ones(1, 64)\n")
    ran = run(capsys, "export", "big.py:make", "-o", "model.onnx", "--external-data", "--json")
    assert [Path(path).name for path in ran.document["paths"]] == ["model.onnx", "model.onnx.data"]
    ran = run(capsys, "export", "big.py:make", "-o", "model.onnx", "--one-file", "--json")
    assert [Path(path).name for path in ran.document["paths"]] == ["model.onnx"]


def test_weights_from_a_checkpoint(project: str, capsys: Capsys) -> None:
    Path("hollow.py").write_text(
        "import torch, onnxexp\n"
        "def make():\n"
        "    with onnxexp.meta_parameters():\n"
        "        return torch.nn.Linear(4, 3), torch.ones(1, 4)\n"
    )
    linear = torch.nn.Linear(4, 3)
    save_file(linear.state_dict(), "linear.safetensors")
    weights = ("--weights", "linear.safetensors")
    ran = run(capsys, "export", "hollow.py:make", "-o", "model.onnx", "--verify", *weights)
    assert ran.status == 0 and "verified: every output agrees" in ran.out, ran.err
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in loaded().graph.initializer}
    assert (stored["bias"] == linear.bias.detach().numpy()).all()
    assert run(capsys, "check", "hollow.py:make", *weights).status == 0
    assert run(capsys, "verify", "model.onnx", "--against", "hollow.py:make", "--find-mismatch", *weights).status == 0
    save_file(torch.nn.Linear(4, 3).state_dict(), "linear.safetensors")
    assert run(capsys, "verify", "model.onnx", "--against", "hollow.py:make", *weights).status == 1
    ran = run(capsys, "export", "hollow.py:make", "-o", "model.onnx", "--weights", "nowhere.safetensors")
    assert ran.status == 2 and "there is no file nowhere.safetensors; to fix this, " in ran.err


def test_the_document(project: str, capsys: Capsys) -> None:
    document = run(capsys, "export", f"{project}:pair", "-o", "model.onnx", "--json", "--verify").document
    assert document["plugins"] == [{"name": "tiny", "distribution": "tiny-pack", "version": "1.0"}]
    assert document["bytes"] == Path("model.onnx").stat().st_size
    assert document["inputs"] == {"x": "float32[2, 3]"} and document["outputs"] == {"output": "float32[2, 3]"}
    assert document["nodes"] == 2 and document["opset"] == 20 and document["verified"] is True
    assert {"load torch and the model", "capture", "lower", "write", "verify"} <= set(document["stages"]) and document[
        "seconds"
    ] > 0


def test_json_is_alone_on_standard_output(project: str, tmp_path: Path) -> None:
    arguments = ["export", f"{project}:chatty", "-o", "model.onnx", "--json"]
    ran = separately(*arguments, cwd=Path.cwd(), path=[tmp_path / "packs"], ONNXEXP_PLUGINS="tiny")
    assert ran.status == 0 and ran.document["nodes"] == 2
    assert "said by the factory" in ran.err and "said by the model" in ran.err


def test_warnings_are_part_of_the_summary(project: str, capsys: Capsys) -> None:
    ran = run(capsys, "export", f"{project}:writing", "-o", "model.onnx")
    assert ran.out.count("warning: the forward writes into count") == 1
    assert (
        "writes into count" in run(capsys, "export", f"{project}:writing", "-o", "model.onnx", "--json").document["warnings"][0]
    )


def test_a_difference_is_a_no(project: str, capsys: Capsys, tmp_path: Path) -> None:
    source = """
        from onnxexp import SymbolicTable
        table = SymbolicTable("aten", override=True)
        table.direct({"relu": "Abs"})
    """
    install(tmp_path / "packs", "wrong", "wrong_symbolics:table", source=source)
    (tmp_path / "project" / "negative.py").write_text("import torch\ndef make():\n    return torch.nn.ReLU(), -torch.ones(2)\n")
    for more in ([], ["--json"]):
        ran = run(capsys, "export", "negative.py:make", "-o", "model.onnx", "--verify", "--plugins", "tiny,wrong", *more)
        assert ran.status == 1, ran.err
        assert "disagrees with the original in 1 of 1 outputs" in ran.out
    assert ran.document["verified"] is False and ran.document["paths"] == [] and not Path("model.onnx").exists()
    assert "model.onnx stays as it was" in ran.document["difference"]
    ran = run(
        capsys, "export", "negative.py:make", "-o", "model.onnx", "--verify", "--plugins", "tiny,wrong", "--without", "wrong"
    )
    assert ran.status == 0


# Errors


@pytest.mark.parametrize(
    ("target", "more", "message"),
    [
        ("nowhere", [], "'nowhere' is neither MODULE:FACTORY nor FILE.py:FACTORY nor FILE.pt2 nor FILE.pt"),
        ("nowhere.pt", [], "there is no file nowhere.pt"),
        ("nowhere:make", [], "there is no module 'nowhere': it is neither installed nor in the working directory"),
        ("nowhere.py:make", [], "there is no file nowhere.py"),
        ("nowhere.pt2", [], "there is no file nowhere.pt2"),
        ("{project}:Modle", [], "has no 'Modle' (did you mean 'Model'?)"),
        ("{project}:number", [], "is or returns an object of type int; a factory returns a model"),
        ("{project}:takes", [], "needs arguments (width), and a factory is called without any"),
        ("{project}:Needs", [], "needs arguments (width)"),
        ("{project}:model", [], "has no example inputs; the model takes (x). Pass one --input for each"),
        ("{project}:misspelled", [], "'arg' (did you mean 'args'?) is none"),
        ("{project}:headless", [], "'model' is missing"),
        ("{project}:fails", [], "failed: ValueError: no weights here ("),
        ("{project}:model", ["--input", "float33[2]"], "torch has no dtype 'float33' (did you mean 'float32'?)"),
        ("{project}:model", ["--input", "2x3"], "expected [NAME=]DTYPE[SIZES] or a number"),
        ("{project}:pair", ["--dynamic", "x"], "--dynamic x: expected INPUT:AXIS=NAME"),
        ("{project}:pair", ["--dynamic", "x:a=b"], "--dynamic x:a=b: expected INPUT:AXIS=NAME"),
        ("{project}:pair", ["--dynamic", "y:0=b"], "'y'"),
        ("{project}:pair", ["--opset", "99"], "99; expected a whole number from 9 to 28"),
        ("{project}:pair", ["--target", "tflite"], 'target is \'tflite\'; expected "onnxruntime" or "onnx"'),
        ("{project}:pair", ["--plugins", "tinny"], "there is no plugin 'tinny' (did you mean 'tiny'?)"),
        ("{project}:pair", ["--prefer", "relu=tiny"], "--prefer relu=tiny: expected OP=PLUGIN"),
        ("{project}:pair", ["--custom-opset", "my.domain"], "--custom-opset my.domain: expected DOMAIN=VERSION"),
        ("{project}:unsupported", [], "i0e"),
        ("{project}:pair", ["-o", "no/such/folder/model.onnx"], "no/such/folder"),
    ],
)
def test_errors_are_one_message(project: str, capsys: Capsys, target: str, more: list[str], message: str) -> None:
    arguments = ["export", target.format(project=project), "-o", "model.onnx", *more]
    ran = run(capsys, *arguments)
    assert ran.status == 2 and ran.out == ""
    assert ran.err.startswith("onnxexp: ") and message in ran.err and "Traceback" not in ran.err
    as_json = run(capsys, *arguments, "--json")
    assert as_json.status == 2 and message in as_json.document["error"]["message"]
    assert not Path("model.onnx").exists()


def test_warnings_before_an_error_are_told(project: str, capsys: Capsys) -> None:
    Path("warns.py").write_text("import warnings\ndef make():\n    warnings.warn('mind the gap')\n    raise ValueError('fell')\n")
    ran = run(capsys, "export", "warns.py:make", "-o", "model.onnx")
    assert ran.status == 2 and ran.err.startswith(
        "warning: mind the gap\nonnxexp: calling warns.py:make failed: ValueError: fell"
    )


def test_the_traceback_on_demand(project: str, capsys: Capsys) -> None:
    ran = run(capsys, "export", f"{project}:fails", "-o", "model.onnx", "--traceback")
    assert ran.status == 2 and "Traceback" in ran.err and "in fails" in ran.err


def test_errors_inside_a_module(project: str, capsys: Capsys) -> None:
    Path("broken_inside.py").write_text("import no_such_package_anywhere\n")
    ran = run(capsys, "export", "broken_inside:make", "-o", "model.onnx")
    assert ran.status == 2 and "importing broken_inside failed: ModuleNotFoundError: No module named 'no_such_package" in ran.err


def test_a_package_in_a_file_is_hinted_at(project: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sub").mkdir()
    Path("sub/model.py").write_text("")
    ran = run(capsys, "export", "sub/model:make", "-o", "model.onnx")
    assert ran.status == 2 and "there is no file sub/model" in ran.err


# The working directory


@pytest.mark.parametrize("how", [pytest.param("module", marks=pytest.mark.full), "installed"])
def test_the_working_directory_is_for_the_users_module_alone(tmp_path: Path, how: str) -> None:
    """Plugins cannot import from the working directory, nor can an installed target."""
    here, packs = tmp_path / "here", tmp_path / "packs"
    source = """
        import os, sys
        assert os.getcwd() not in sys.path and "" not in sys.path, "the working directory is on the path"
        from tests.core.tiny import TINY as table
        try:
            import helper
        except ModuleNotFoundError:
            pass
        else:
            raise AssertionError("a plugin imported from the working directory")
    """
    install(packs, "careful", "careful_pack:table", source=source)
    here.mkdir()
    (here / "helper.py").write_text("import torch\nmake = lambda: (torch.nn.ReLU(), torch.ones(2))\n")
    (packs / "target_package.py").write_text("import torch\nmake = lambda: (torch.nn.ReLU(), torch.ones(2))\n")
    target = "helper:make" if how == "module" else "target_package:make"
    arguments = ["export", target, "-o", str(tmp_path / "model.onnx"), "--plugins", "careful"]
    if how == "module":  # `python -m` itself puts the working directory on the path
        ran = separately(*arguments, cwd=here, path=[packs])
        assert ran.status == 0, ran.err
    code = "import os; assert (os.getcwd() in sys.path) is (sys.argv[2] == 'helper:make'), sys.path"
    ran = separately(*arguments, cwd=here, path=[packs], code=code)
    assert ran.status == 0, ran.err


# check


def test_check_says_who_lowers_what(project: str, capsys: Capsys) -> None:
    ran = run(capsys, "check", f"{project}:pair")
    assert ran.status == 0 and "aten::relu" in ran.out and "all 2 nodes can be lowered at opset 20" in ran.out
    document = run(capsys, "check", f"{project}:pair", "--json").document
    assert document["ok"] is True and document["opset"] == 20
    assert [(node["op"], node["by"]) for node in document["nodes"]] == [("aten::relu", "tiny"), ("aten::add.Tensor", "tiny")]
    assert f"{project}.py" in document["nodes"][0]["where"]
    assert f"{project}.py" in run(capsys, "check", f"{project}:pair", "--nodes").out


def test_check_says_no(project: str, capsys: Capsys) -> None:
    ran = run(capsys, "check", f"{project}:unsupported")
    assert ran.status == 1 and "i0e" in ran.out and f"{project}.py" in ran.out
    document = run(capsys, "check", f"{project}:unsupported", "--json").document
    assert document["ok"] is False and "i0e" in document["message"]
    export = run(capsys, "export", f"{project}:unsupported", "-o", "model.onnx")
    assert document["message"] == export.err.removeprefix("onnxexp: ").rstrip("\n")


def test_how_to_capture_and_what_to_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gamma.py").write_text(
        "import torch\n@torch.library.custom_op('cli_gamma::op', mutates_args=())\n"
        "def op(x: torch.Tensor) -> torch.Tensor:\n    return x + 1\n"
        "op.register_fake(torch.empty_like)\n"
        "def make(): return op, (torch.ones(2, 3),)\n"
    )
    kept = ("--capture", "export", "--operator-export-type", "ONNX_FALLTHROUGH", "--custom-opset", "cli_gamma=3")
    assert run(capsys, "export", "gamma.py:make", "-o", "kept.onnx", *kept).status == 0
    model = onnx.load("kept.onnx")
    assert [node.domain for node in model.graph.node] == ["cli_gamma"]
    assert {each.domain: each.version for each in model.opset_import}["cli_gamma"] == 3
    assert run(capsys, "export", "gamma.py:make", "-o", "kept.onnx", "--capture", "film").status == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dynamic", "input:0=b"], "onnxexp: --dynamic names 'input', which is no input of the model. There are: x."),
        (["--dynamic", "x:5=b"], "onnxexp: --dynamic x (input x): there is no axis 5"),
        (["--opset", "8"], "onnxexp: --opset is 8; expected a whole number from 9 to"),
        (["--custom-opset", "my.domain=0"], "onnxexp: --custom-opset my.domain is 0; a domain's version is a whole number"),
        (["--skip-pass", "no-pass"], "onnxexp: --skip-pass: there is no pass 'no-pass'"),
        (["--capture", "none"], "onnxexp: --capture is 'none'"),
    ],
)
@pytest.mark.parametrize("command", [["export", "-o", "model.onnx"], ["check"]], ids=["export", "check"])
def test_an_error_names_the_flag(project: str, capsys: Capsys, command: list[str], more: list[str], message: str) -> None:
    ran = run(capsys, *command, f"{project}:pair", *more)
    assert ran.status == 2 and ran.err.startswith(message), ran.err


def test_an_error_on_an_argument_of_the_factory_names_no_flag(project: str, capsys: Capsys) -> None:
    Path("factory.py").write_text(
        "import torch\ndef make():\n"
        "    return {'model': torch.nn.ReLU(), 'args': (torch.ones(2, 3),), 'dynamic_shapes': {'no_input': {0: 'b'}}}\n"
    )
    ran = run(capsys, "export", "factory.py:make", "-o", "model.onnx")
    assert ran.status == 2 and ran.err.startswith("onnxexp: dynamic_shapes names 'no_input'"), ran.err


def test_the_summary_names_the_sizes_and_the_time_of_the_export(project: str, capsys: Capsys) -> None:
    arguments = ["export", f"{project}:pair", "-o", "model.onnx", "--dynamic", "x:0=rows", "--verify", "sizes"]
    ran = run(capsys, *arguments)
    assert re.search(r"^compared: the example; axis 0 of x is 1; axis 0 of x is \d+; axis 0 of x is \d+$", ran.out, re.MULTILINE)
    document = run(capsys, *arguments, "--json").document
    loading = document["stages"].pop("load torch and the model")
    assert re.search(r"^seconds  [\d.]+ \(capture .*\), after [\d.]+ to load torch and the model$", ran.out, re.MULTILINE)
    assert loading >= 0 and document["seconds"] >= sum(document["stages"].values())
