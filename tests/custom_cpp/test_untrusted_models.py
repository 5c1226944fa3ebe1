"""An untrusted file runs no library, module or operator of torch that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from onnx import TensorProto, helper

import onnxexp
from onnxexp_custom_cpp import runtime
from onnxexp_custom_cpp.plugin import METADATA, CustomCpp

CODE = '#include <fstream>\nstatic struct Mark { Mark() { std::ofstream("MARKER") << "ran"; } } mark;\n'


def file(folder: Path, metadata: Any, **attributes: Any) -> Path:
    node = helper.make_node("Foo", ["x"], ["y"], domain="hostile", **attributes)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("hostile", 1), helper.make_opsetid("", 20)], ir_version=10
    )
    helper.set_model_props(model, {METADATA: metadata if isinstance(metadata, str) else json.dumps(metadata)})
    path = folder / "hostile.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Provide a file that names a library and a module, which write the second file."""
    marker = tmp_path / "marker"
    (tmp_path / "code.cpp").write_text(CODE.replace("MARKER", str(marker)))
    library = tmp_path / "evil.so"
    subprocess.run(["c++", "-shared", "-fPIC", str(tmp_path / "code.cpp"), "-o", str(library)], check=True)
    (tmp_path / "evil_module.py").write_text(f"open({str(marker)!r}, 'w').write('ran')")
    monkeypatch.syspath_prepend(tmp_path)
    operator = {"torch": "hostile::foo", "attributes": {}, "libraries": [str(library)], "modules": ["evil_module"]}
    return file(tmp_path, {"hostile::Foo": operator}), marker


def test_a_file_runs_no_code(hostile: tuple[Path, Path]) -> None:
    path, marker = hostile
    with pytest.raises(runtime.BridgeError, match=r"The file names '.*evil.so', 'evil_module', which trusted=True loads"):
        runtime.session(path)
    model = ir.load(path)
    with pytest.raises(runtime.BridgeError, match="which this process does not have"):
        CustomCpp().prepare_session(model, None)
    assert not marker.exists()
    with pytest.raises(runtime.BridgeError):
        runtime.session(path, trusted=True)
    assert marker.exists()


@pytest.mark.parametrize("name", ["aten::from_file", "aten::from_file.out", "aten::save"])
def test_a_file_opens_no_other_file(name: str, tmp_path: Path) -> None:
    metadata = {"hostile::Foo": {"torch": name, "attributes": {"filename": "filename"}}}
    with pytest.raises(runtime.BridgeError, match="opens any file; to fix this, remove it"):
        runtime.session(file(tmp_path, metadata, filename=str(tmp_path / "secret")))
    assert not (tmp_path / "secret").exists()


NAMES = ("", "a", "load_library::x", "__class__::__init__", "aten::")
METADATA_OF_ANY_FORM: list[Any] = [
    "no JSON", "[" * 100_000, "5", "[1]", {"hostile::Foo": 5},
    {"hostile::Foo": {}}, {"hostile::Foo": {"torch": 5, "attributes": {}}},
    *({"hostile::Foo": {"torch": name, "attributes": {}}} for name in NAMES),
]  # fmt: skip


@pytest.mark.parametrize("metadata", METADATA_OF_ANY_FORM, ids=lambda value: str(value)[:60])
def test_metadata_of_any_form(metadata: Any, tmp_path: Path) -> None:
    with pytest.raises(onnxexp.OnnxExporterError, match="to fix this|load its library"):
        runtime.session(file(tmp_path, metadata))


@pytest.mark.parametrize("words", ["=none", "inputs:x", "inputs:9", "input input input input", "", "tensor what", "complex =a"])
def test_calls_of_any_form(words: str, tmp_path: Path) -> None:
    path = file(tmp_path, {"hostile::Foo": {"torch": "aten::add.Tensor", "attributes": {}}}, torch_arguments=words)
    with pytest.raises(onnxexp.OnnxExporterError):
        runtime.session(path)


def test_files_of_our_own_still_run(tmp_path: Path) -> None:
    path = file(tmp_path, {"hostile::Foo": {"torch": "aten::sin", "attributes": {}}})
    x = torch.ones(2)
    for _ in range(2):  # two sessions of one process call the same operator
        found = runtime.session(path, bridge="python").run(None, {"x": x.numpy()})[0]
        torch.testing.assert_close(torch.from_numpy(found), x.sin())
