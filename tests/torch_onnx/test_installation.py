"""installation.py: onnxexp in torch.onnx's place."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import multiprocessing
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx
from onnxexp_torch_onnx import install, installed, uninstall
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from onnxexp_torch_onnx.installation import is_installed

X = torch.randn(3, 4)
HOMES = (torch.onnx, torch.onnx.errors, torch.onnx.utils, torch.onnx.export.__globals__)
TORCHS = (torch.onnx.export, torch.onnx.ONNXProgram)  # names of this module would be replaced


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 500)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


@pytest.fixture(autouse=True)
def uninstalled() -> Iterator[None]:
    """Leave torch.onnx as it was."""
    yield
    uninstall()


def names() -> list[dict[str, Any]]:
    return [dict(home if isinstance(home, dict) else vars(home)) for home in HOMES]


def test_torch_onnx_is_served_and_then_as_it_was(tmp_path: Path) -> None:
    before, path = names(), tmp_path / "model.onnx"
    with installed():
        assert is_installed() and torch.onnx.export is not TORCHS[0]
        assert torch.onnx.export.__wrapped__ is TORCHS[0]  # type: ignore[attr-defined]
        program = torch.onnx.export(Model().eval(), (X,), path, dynamo=True, dynamic_shapes=({0: "batch"},))
        assert isinstance(program, torch.onnx.ONNXProgram)
    loaded = onnx.load(path, load_external_data=False)
    assert loaded.producer_name == "onnxexp" and loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    after = names()
    added = [value for i, each in enumerate(after) for name, value in each.items() if name not in before[i]]
    assert all(isinstance(each, types.ModuleType) for each in added)  # imported meanwhile
    assert all(after[i][name] is value for i, each in enumerate(before) for name, value in each.items())


def test_the_result_and_the_files_are_those_of_torch(tmp_path: Path) -> None:
    model = Model().eval()
    with installed():
        assert torch.onnx.export(model, (X,), tmp_path / "new.onnx") is not None
        assert torch.onnx.export(model, (X,), tmp_path / "one.onnx", external_data=False) is not None
        assert torch.onnx.export(model, (X,), str(tmp_path / "old.onnx"), dynamo=False) is None
        assert torch.onnx.utils.export(model, (X,), str(tmp_path / "utils.onnx")) is None  # type: ignore[func-returns-value]
        buffer = io.BytesIO()
        torch.onnx.export(model, (X,), buffer)
        program = torch.onnx.export(model, X, dynamo=False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new.onnx", "new.onnx.data", "old.onnx", "one.onnx", "utils.onnx"]
    assert onnx.load_from_string(buffer.getvalue()).graph.initializer
    assert program is not None
    torch.testing.assert_close(program(X), (model(X),))


class Several(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x.relu()
        return y, [torch.softmax(y, 1), x], {"sum": y + 1, "pair": (y + 2, None)}


@pytest.mark.parametrize("model", [Model().eval(), Several()], ids=["Model", "Several"])
@pytest.mark.parametrize("given", [None, ["first"]])
def test_outputs_have_the_names_that_torch_gives_them(model: torch.nn.Module, given: list[str] | None) -> None:
    expected = torch.onnx.export(model, (X,), dynamo=True, output_names=given, verbose=False)
    with installed():
        program: Any = torch.onnx.export(model, (X,), dynamo=True, output_names=given)
    assert [each.name for each in program.model.graph.outputs] == [each.name for each in expected.model.graph.outputs]
    program.verify()


@pytest.mark.parametrize("included", [True, False])
def test_weights_in_the_file(tmp_path: Path, included: bool) -> None:
    with installed():
        options: dict[str, Any] = {"export_params": included, "keep_initializers_as_inputs": not included}
        torch.onnx.export(Model().eval(), (X,), tmp_path / "model.onnx", external_data=False, **options)
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert (len(graph.initializer), len(graph.input)) == ((2, 1) if included else (0, 3))


def test_the_signature_begins_with_torchs() -> None:
    with installed():
        parameters = inspect.signature(torch.onnx.export).parameters
    torchs = inspect.signature(TORCHS[0]).parameters
    assert [*parameters][: len(torchs)] == [*torchs] and {"plugins", "check_sizes"} <= {*parameters}
    assert all(parameters[name].default == each.default for name, each in torchs.items())


def test_names_that_were_imported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = types.ModuleType("a_library")
    vars(caller).update(export=TORCHS[0], OnnxExporterError=onnxexp.OnnxExporterError, Program=torch.onnx.ONNXProgram)
    monkeypatch.setitem(sys.modules, "a_library", caller)
    later = types.ModuleType("another_library")
    monkeypatch.setitem(sys.modules, "another_library", later)
    with installed():
        assert caller.export is torch.onnx.export and caller.Program is onnxexp_torch_onnx.ONNXProgram
        vars(later).update(export=torch.onnx.export)
    assert caller.export is TORCHS[0] and caller.Program is TORCHS[1] and later.export is TORCHS[0]
    assert caller.OnnxExporterError is onnxexp.OnnxExporterError  # its own import of onnxexp's


def test_install_twice_and_after_a_reload() -> None:
    install()
    served = torch.onnx.export
    install()
    assert torch.onnx.export is served
    with installed():
        pass
    assert torch.onnx.export is served
    vars(torch.onnx)["export"] = TORCHS[0]  # what importlib.reload(torch.onnx) does; monkeypatch would put `served` back
    install()
    assert torch.onnx.export is not TORCHS[0]
    uninstall()
    assert torch.onnx.export is TORCHS[0]


def test_other_tools_that_replace_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def before(*args: Any, **options: Any) -> str:
        return "the tool's"

    monkeypatch.setattr(torch.onnx, "export", before)
    with pytest.warns(OnnxExporterWarning, match=r"torch\.onnx\.export was .*before, not torch's own"):
        install()
    served = torch.onnx.export
    assert served(torch.relu, (X,), dynamo=True) != "the tool's"

    def after(*args: Any, **options: Any) -> Any:
        return served(*args, **options)

    torch.onnx.export = after
    uninstall()
    assert torch.onnx.export is after
    assert torch.onnx.export(torch.relu, (X,)) == "the tool's"  # type: ignore[comparison-overlap]
    torch.onnx.export = before


def test_arguments_that_torch_takes_together() -> None:
    model = Model().eval()
    with installed():
        with pytest.warns(OnnxExporterWarning, match="dynamic_axes has no effect beside dynamic_shapes"):
            program = torch.onnx.export(
                model, (X,), input_names=["x"], dynamic_shapes=({0: "rows"},), dynamic_axes={"x": {0: "other"}}
            )
        assert str(program.model.graph.inputs[0].shape) == "[rows,4]"
        with pytest.warns(OnnxExporterWarning, match="gives 2 names"):
            program = torch.onnx.export(model, (X,), output_names=["y", "z"])
        assert [value.name for value in program.model.graph.outputs] == ["y"]
        with pytest.warns(OnnxExporterWarning, match="no input or output of that name"):
            torch.onnx.export(model, (X,), dynamo=False, input_names=["x"], dynamic_axes={"x": [0], "masks": [0]})
        captured = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
        program = torch.onnx.export(captured, (X,), dynamic_shapes=({0: "rows"},))
        assert str(program.model.graph.inputs[0].shape) == "[rows,4]"
        with pytest.raises(TypeError, match="multiple values for argument 'f'"):
            torch.onnx.export(model, (X,), "m.onnx", f="n.onnx")  # type: ignore[misc]


class Named(torch.nn.Module):
    """A model whose only argument is a dictionary."""

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return inputs["a"] + inputs["b"]


def test_a_dictionary_that_is_an_argument() -> None:
    with installed():
        program = torch.onnx.export(Named(), {"a": X, "b": X})
        torch.testing.assert_close(program({"a": X, "b": X}), (X + X,))
        program = torch.onnx.export(Named(), {"inputs": {"a": X, "b": X}})
        torch.testing.assert_close(program({"a": X, "b": X}), (X + X,))


def test_training_mode_is_not_exported_in_silence() -> None:
    model = torch.nn.Dropout(0.5).train()
    with installed():
        with pytest.warns(OnnxExporterWarning, match="the model is in training mode, in which torch.onnx exports it"):
            program = torch.onnx.export(model, (X,))
        torch.testing.assert_close(program(X), (X,))
    assert model.training


def test_artifacts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with installed():
        torch.onnx.export(
            Model().eval(),
            (X,),
            report=True,
            dump_exported_program=True,
            profile=True,
            verify=True,
            artifacts_dir=tmp_path / "new",
        )
    page, program = sorted((tmp_path / "new").iterdir(), key=lambda path: path.suffix)
    assert page.suffix == ".html" and "<html" in page.read_text(encoding="utf-8")
    assert program.suffix == ".pt2" and torch.export.load(program).graph_signature.user_inputs == ("x",)
    assert "capture: " in caplog.text


class Rows(torch.nn.Module):
    """A model that Python loops over the rows of."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(4)
        for row in range(x.shape[0]):
            total = total + x[row] * (row + 1)
        return total


def test_what_a_trace_fixes_is_exported_with_a_warning_where_torchs_tracer_is_chosen() -> None:
    options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0]}, "capture": "trace"}
    with installed():
        with pytest.raises(torch.onnx.OnnxExporterError, match="a second trace"):
            torch.onnx.export(Rows(), (X,), **options)
        with pytest.warns(OnnxExporterWarning, match="right at the example's sizes, and may be wrong at others"):
            program = torch.onnx.export(Rows(), (X,), dynamo=False, **options)
        torch.testing.assert_close(program(X), (Rows()(X),))


class GhostBatches(torch.nn.Module):
    """Normalize a batch in pieces, as TabNet does. NumPy computes how many."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.norm(piece) for piece in x.chunk(int(np.ceil(x.shape[0] / 2)))])


def test_a_number_that_torch_export_fixes_is_exported_with_a_warning_too() -> None:
    options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0]}}
    model = GhostBatches().eval()
    with installed():
        with pytest.raises(torch.onnx.OnnxExporterError, match="fixes a number that depends on a dynamic size"):
            torch.onnx.export(model, (X,), dynamo=True, **options)
        with pytest.warns(OnnxExporterWarning, match=r"(?s)may be wrong at others.*fixes a number that depends"):
            program = torch.onnx.export(model, (X,), dynamo=False, **options)
    for x in (X, torch.randn(9, 4)):
        torch.testing.assert_close(program(x), (model(x),))


def test_where_both_captures_fail_the_reason_is_the_first() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("no such thing")

    with installed(), pytest.raises(torch.onnx.OnnxExporterError, match="no such thing"):
        torch.onnx.export(fails, (X,), dynamo=False)


class Unused(torch.nn.Module):
    """A model that returns one argument, and uses another for its size only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, unused: torch.Tensor, returned: torch.Tensor, size: torch.Tensor) -> Any:
        return self.layer(x) + size.shape[0], returned


def test_files_of_torchs_tracer_lack_unused_inputs(tmp_path: Path) -> None:
    args = (X, torch.ones(2), torch.ones(3), torch.ones(5))
    for options, inputs in (
        ({"dynamo": False}, ["x", "returned"]),
        ({"dynamo": False, "dynamic_axes": {"size": [0]}}, ["x", "returned", "size"]),
        ({"dynamo": True}, ["x", "unused", "returned", "size"]),
        ({"dynamo": False, "keep_initializers_as_inputs": True}, ["x", "returned", "layer.weight", "layer.bias"]),
    ):
        found = []
        for served in (True, False):
            with installed() if served else contextlib.nullcontext():
                file = tmp_path / f"{served}.onnx"
                torch.onnx.export(Unused(), args, file, input_names=["x", "unused", "returned", "size"], **options)
                found.append([value.name for value in onnx.load(file).graph.input])
        assert found == [inputs, inputs]


SEEN: list[Any] = []


class Flags(torch.nn.Module):
    """A model that notes what torch says of an export."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = importlib.import_module("torch.onnx._internal.torchscript_exporter._globals").GLOBALS
        SEEN.append((torch.onnx.is_in_onnx_export(), state.in_onnx_export, state.export_onnx_opset_version))
        return x + 1


def test_what_torch_says_of_the_export() -> None:
    model = Flags()
    with installed():
        torch.onnx.export(model, (X,), dynamo=False, opset_version=13)
        assert not torch.onnx.is_in_onnx_export()
        model(X)
    assert (True, True, 13) in SEEN and SEEN[-1][:2] == (False, False)


def test_former_functions(tmp_path: Path) -> None:
    model = Model().eval()
    with installed():
        result = torch.onnx.utils._export(model, (X,), str(tmp_path / "model.onnx"), opset_version=13)
        torch.testing.assert_close(result, model(X))
        former: Any = torch.onnx
        assert former.dynamo_export(model, X).model_proto.graph.node
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 13


def test_registrations_of_libraries_count() -> None:
    torch.onnx.register_custom_op_symbolic("aten::selu", lambda g, x: g.op("Identity", x), 9)
    try:
        with installed():
            program = torch.onnx.export(torch.nn.SELU(), (X,))
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::selu", 9)
    assert [node.op_type for node in program.model.graph] == ["Identity"]


def test_threads() -> None:
    models = [Model().eval() for _ in range(4)]
    found: dict[int, Any] = {}

    def export(index: int) -> None:
        found[index] = torch.onnx.export(models[index], (X,), opset_version=13 + index)

    with installed():
        threads = [threading.Thread(target=export, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for index, model in enumerate(models):
        torch.testing.assert_close(found[index](X), (model(X),))
        assert found[index].model.opset_imports[""] == 13 + index


def _exported(queue: Any) -> None:
    program = torch.onnx.export(torch.nn.ReLU(), (X,))
    queue.put((program.model.producer_name, torch.equal(program(X)[0], X.relu())))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_forked_workers() -> None:
    """A worker serves torch.onnx as its parent does at the fork, and leaves the parent as it is."""
    context = multiprocessing.get_context("fork")
    own = torch.onnx.export
    queue: Any = context.Queue()
    with installed():
        workers = [context.Process(target=_exported, args=(queue,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        found = [queue.get(timeout=120) for _ in workers]
        for worker in workers:
            worker.join()
    assert found == [("onnxexp", True)] * 2
    assert torch.onnx.export is own


PYTEST_PLUGIN = """
import onnxexp_torch_onnx, pytest

@pytest.fixture(autouse=True)
def served():
    with onnxexp_torch_onnx.installed():
        yield
"""
TEST = """
import torch
from torch.onnx import export

def test_export():
    program = export(torch.nn.ReLU(), (torch.ones(2),))
    assert program.model.producer_name == "onnxexp"
"""


@pytest.mark.full
def test_a_plugin_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PYTEST_PLUGIN)
    (tmp_path / "test_model.py").write_text(TEST)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


SCRIPT = """
import sys, torch
from torch.onnx import export
print(sys.argv[1:], __name__)
program = export(torch.nn.ReLU(), (torch.ones(2),))
print(program.model.producer_name)
sys.exit(len(sys.argv))
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], check=False, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


@pytest.mark.parametrize(
    "words", [("-m", "onnxexp_torch_onnx"), pytest.param(("-m", "onnxexp", "run", "--"), marks=pytest.mark.full)]
)
def test_a_program_is_run(words: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "export.py"
    script.write_text(SCRIPT)
    finished = run(*words, str(script), "a", "--b=c")
    assert finished.stdout.splitlines() == ["['a', '--b=c'] __main__", "onnxexp"], finished.stderr
    assert finished.returncode == 3


@pytest.mark.full
def test_a_module_and_a_command_are_run(tmp_path: Path) -> None:
    (tmp_path / "a_module.py").write_text(SCRIPT)
    finished = subprocess.run(
        [sys.executable, "-m", "onnxexp_torch_onnx", "-m", "a_module", "x"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (finished.stdout.splitlines(), finished.returncode) == (["['x'] __main__", "onnxexp"], 2), finished.stderr
    finished = run("-m", "onnxexp_torch_onnx", "onnxexp", "--version")
    assert finished.stdout.strip() == f"onnxexp {onnxexp.__version__}" and finished.returncode == 0
    (tmp_path / "no-such-command").write_text("raise SystemExit(0)")
    words = [sys.executable, "-m", "onnxexp_torch_onnx", "no-such-command"]
    finished = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert finished.returncode == 2 and "no script, module or command 'no-such-command'" in finished.stderr


@pytest.mark.full
def test_the_working_directory_is_no_place_for_imports(tmp_path: Path) -> None:
    (tmp_path / "onnx.py").write_text("raise SystemExit(7)")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "export.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "onnxexp", "run", "--", "scripts/export.py"]
    finished = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (finished.stdout.splitlines()[-1:], finished.returncode) == (["onnxexp"], 1), finished.stderr


def test_the_environment_variable() -> None:
    code = (
        "import onnxexp_torch_onnx_start, torch; print(torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),)).model.producer_name)"
    )
    finished = run("-c", code, ONNXEXP_REPLACE_TORCH_ONNX="1")
    assert finished.stdout.strip() == "onnxexp", finished.stderr


def test_the_result_of_a_model_with_quantized_inputs() -> None:
    """torch.onnx.utils._export returns the model's result for the example, as integers."""
    x = torch.quantize_per_tensor(torch.rand(2, 3), 0.1, 10, torch.quint8)
    with installed():
        result = torch.onnx.utils._export(torch.nn.ReLU(), (x,), io.BytesIO(), opset_version=13)
    assert torch.equal(result, x.relu().int_repr())
