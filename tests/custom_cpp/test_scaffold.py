"""The pack that ``onnxexp scaffold-op`` writes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnxexp import OptionError
from onnxexp._cli import main
from onnxexp_custom_cpp.scaffold.plugin_files import create

EVERYTHING = (
    "gate(Tensor a, Tensor? b, Tensor[] more, float s, int n=2, bool up=True, str mode='x', int[] sizes=[], float[] by=[], "
    "float? f=None, int? i=None, bool? k=None, *, ScalarType dtype) -> (Tensor, Tensor)"
)


def compiled(folder: Path, name: str = "gate") -> Path:
    """Compile ONNX Runtime's library, which needs nothing but a compiler."""
    target = folder / "ort.so"
    command = ["c++", "-shared", "-fPIC", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", target, f"csrc/{name}_ort.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return target


def session(library: Path, node: object, inputs: dict[str, tuple[int, ...]], outputs: int) -> onnxruntime.InferenceSession:
    def values(names: list[str]) -> list[object]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    graph = helper.make_graph([node], "one", values(list(inputs)), values([f"y{index}" for index in range(outputs)]))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("gate_ops", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def test_every_kind_of_argument_in_onnx_runtime(tmp_path: Path) -> None:
    create("gate", EVERYTHING, tmp_path)
    a, b, c = (np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32) for seed in range(3))
    node = helper.make_node(
        "Gate", ["a", "", "b", "c"], ["y0", "y1"], domain="gate_ops",
        s=0.5, n=3, up=1, mode="abc", sizes=[1, 2], by=[0.25, 0.5], i=4, dtype=11,
    )  # fmt: skip
    run = session(compiled(tmp_path), node, {"a": a.shape, "b": b.shape, "c": c.shape}, 2).run(None, {"a": a, "b": b, "c": c})
    factor = np.float32(1 + 0.5 + 3 + 1 + 3 + 3 + 0.75 + 4 + 11)
    np.testing.assert_allclose(run[0], a * factor + b + c, rtol=1e-5)
    np.testing.assert_allclose(run[1], run[0] + 1, rtol=1e-6)


def test_an_optional_input(tmp_path: Path) -> None:
    create("gate", "gate(Tensor a, Tensor? b, Tensor? c) -> Tensor", tmp_path)
    library, x = compiled(tmp_path), np.ones((2, 2), np.float32)
    for names, wanted in ((["a"], 1), (["a", "b"], 2), (["a", "", "c"], 2), (["a", "b", "c"], 3)):
        given = {name: x.shape for name in names if name}
        node = helper.make_node("Gate", names, ["y0"], domain="gate_ops")
        result = session(library, node, given, 1).run(None, dict.fromkeys(given, x))[0]
        np.testing.assert_array_equal(result, x * wanted)


SCHEMAS = [
    "gate(Tensor x, Tensor y, float s, int n) -> Tensor",
    "gate(Tensor a) -> (Tensor, Tensor, Tensor)",
    "gate(float s, Tensor a, *, bool up=False) -> Tensor",
    EVERYTHING,
]


@pytest.mark.parametrize("schema", SCHEMAS[1:])
def test_the_python_files_are_python(schema: str, tmp_path: Path) -> None:
    files = create("gate", schema, tmp_path)
    for file in files:
        text = file.read_text()
        assert "@{" not in text
        if file.suffix == ".py":
            compile(text, str(file), "exec")
    assert len(files) == 14


@pytest.mark.parametrize(("name", "schema", "message"), [
    ("gate", "gate(Tensor a", r"(?s)is no schema of torch: .*; write it as \"gate\(Tensor a, float s\) -> Tensor\""),
    ("gate", "other(Tensor a) -> Tensor", r"it is called other, and NAME is gate"),
    ("gate", "gate(Tensor a, Device d) -> Tensor", r"d is a Device; there are Tensor, "),
    ("gate", "gate(float s) -> Tensor", r"its first tensor must be a Tensor"),
    ("gate", "gate(Tensor? a) -> Tensor", r"its first tensor must be a Tensor"),
    ("gate", "gate(Tensor[] a, Tensor b) -> Tensor", r"a list of tensors must be its last tensor argument"),
    ("gate", "gate(Tensor a) -> int", r"it must return one or several Tensors"),
    ("gate", "gate(Tensor(a!) a) -> Tensor", r"a is written to"),
    ("gate", "gate(Tensor given) -> Tensor", r"given is a word of Python or C\+\+, or of the plugin"),
    ("a-gate", "gate(Tensor a) -> Tensor", r"NAME is 'a-gate'; it is an identifier"),
])  # fmt: skip
def test_what_cannot_be_written(name: str, schema: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        create(name, schema, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_a_namespace_of_torch_is_taken(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--namespace is 'aten', which is taken"):
        create("gate", SCHEMAS[0].replace("x", "a"), tmp_path, namespace="aten")


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(OptionError, match=r"files are never overwritten, and these exist already: .*README\.md"):
        create("gate", "gate(Tensor a) -> Tensor", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = "fused_gate(Tensor a, float s) -> Tensor"
    folder = str(tmp_path / "gate")
    assert main(["scaffold-op", "fused_gate", "--schema", schema, folder, "--domain", "acme.ops"]) == 0
    assert f"next: pip install --no-build-isolation -e {folder}" in capsys.readouterr().out
    assert '"acme.ops::FusedGate"' in (tmp_path / "gate" / "fused_gate_ops" / "__init__.py").read_text()
    assert main(["scaffold-op", "fused_gate", "--schema", "fused_gate(Tensor", "a)", folder]) == 2
    assert "is the schema in quotes?" in capsys.readouterr().err


@pytest.mark.full
def test_the_pack_builds_and_passes_its_own_test(tmp_path: Path) -> None:
    """Both libraries are built; torch, ONNX Runtime and NumPy agree."""
    create("gate", EVERYTHING, tmp_path / "pack")
    run = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"], cwd=tmp_path / "pack", capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    info = tmp_path / "pack" / "gate_ops-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gate-ops\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[onnxexp.plugins]\ngate-ops = gate_ops:plugin\n")
    code = (
        "import sys, pytest; sys.path.insert(0, sys.argv[1]);"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1] + '/tests']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pack"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:]


def test_the_sdist_has_all_that_a_build_needs(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix() for path in create("gate", EVERYTHING, tmp_path)}
    command = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, check=True, capture_output=True)
    (archive,) = (tmp_path / "dist").iterdir()
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    assert {"csrc/gate_core.h", "csrc/ort_abi.h", "gate_ops/py.typed", "LICENSE", "tests/test_gate.py"} <= packed
    assert written - packed == {".gitignore", ".github/workflows/test.yml"}  # these are for the repository
