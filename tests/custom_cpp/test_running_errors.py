"""The errors where an operator cannot be run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_custom_cpp import register_op, runtime
from onnxexp_custom_cpp.runtime import bridge_library
from tests.custom_cpp.foo_op import ort_library

pytestmark = pytest.mark.usefixtures("foo", "registrations")


class Foo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.cpp_ops.foo_forward(x, y, 0.5, 3)


@pytest.fixture
def program() -> onnxexp.ONNXProgram:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs={"attr1": "f", "attr2": "i"})
    return onnxexp.export(Foo(), (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=({0: "n"}, {0: "m"}), capture="trace")


def test_a_kernel_that_throws(program: onnxexp.ONNXProgram) -> None:
    session = runtime.session(program.model)
    ones = np.ones((2, 4), np.float32)
    with pytest.raises(Exception, match=r"cpp_ops::foo_forward: foo_forward: the sizes differ"):
        session.run(None, {"x": ones, "y": np.ones((3, 4), np.float32)})
    np.testing.assert_array_equal(session.run(None, {"x": ones, "y": ones})[0], np.full((2, 4), 3.5))


def test_a_python_kernel_that_throws() -> None:
    @torch.library.custom_op("onnxexp_tests::angry", mutates_args=())
    def angry(x: Tensor) -> Tensor:
        if x.sum() > 100:
            raise ValueError("too much")
        return x.clone()

    with pytest.warns(UserWarning, match=r"need torch when the model runs"):
        program = onnxexp.export(angry, (torch.ones(3),), capture="trace", fallback="torch")
    torch.testing.assert_close(program(torch.ones(3)), torch.ones(3))
    with pytest.raises(onnxexp.OnnxExporterError, match=r"onnxexp_tests::angry: .*too much"):
        program(torch.full((3,), 100.0))


def test_a_result_of_another_dtype_than_the_file_says(program: onnxexp.ONNXProgram) -> None:
    model = program.model
    (node,) = model.graph
    node.outputs[0].dtype = ir.DataType.DOUBLE
    session = runtime.session(model)
    ones = np.ones((2, 4), np.float32)
    with pytest.raises(Exception, match=r"cpp_ops::foo_forward: result 0 is Float, and the model declares .* 11"):
        session.run(None, {"x": ones, "y": ones})


def test_an_operator_that_torch_does_not_have(program: onnxexp.ONNXProgram, tmp_path: Path) -> None:
    program.save(tmp_path / "model.onnx")
    code = "import sys; from onnxexp_custom_cpp import runtime; runtime.session(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model.onnx"], capture_output=True, text=True, check=False)
    assert "custom_domain::Foo is torch's operator cpp_ops::foo_forward, which this process does not have" in done.stderr
    assert "libraries=[...]" in done.stderr


@pytest.mark.parametrize(("name", "message"), [
    ("missing.so", r"there is no library .*missing\.so"),
    ("text.so", r"text\.so does not load"),
])  # fmt: skip
def test_files_that_are_no_libraries(program: onnxexp.ONNXProgram, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(runtime.BridgeError, match=message):
        runtime.session(program.model, libraries=[tmp_path / name])


def test_a_library_of_something_else(program: onnxexp.ONNXProgram, tmp_path: Path) -> None:
    (tmp_path / "other.c").write_text("int other(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so"], check=True)
    with pytest.raises(
        runtime.BridgeError, match=r"no function RegisterCustomOps for ONNX Runtime, and registers no torch operator"
    ):
        runtime.session(program.model, libraries=[tmp_path / "other.so"])


def test_a_library_that_lacks_the_operator(program: onnxexp.ONNXProgram) -> None:
    for node in program.model.graph:
        node.op_type = "Other"
    program.model.metadata_props.clear()
    with pytest.raises(runtime.BridgeError, match=r"does not take the model: .*custom_domain:Other"):
        runtime.session(program.model, libraries=[ort_library()])


def test_a_library_with_another_dtype_leaves_the_node_to_the_bridge() -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs={"attr1": "f", "attr2": "i"})
    x = torch.randn(3, 4, dtype=torch.float64)
    program = onnxexp.export(Foo(), (x, x))
    session = runtime.session(program.model, libraries=[ort_library()])
    np.testing.assert_allclose(session.run(None, {"x": x.numpy(), "y": x.numpy()})[0], x.numpy() * 3.5)


def test_no_file_and_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(onnxexp.OptionError, match=r"there is no file"):
        runtime.session(tmp_path / "missing.onnx")
    with pytest.raises(onnxexp.OptionError, match=r"is not an ONNX model"):
        runtime.session(tmp_path / "text.onnx")


def test_a_way_that_there_is_not(program: onnxexp.ONNXProgram) -> None:
    with pytest.raises(runtime.BridgeError, match=r"bridge is 'c\+\+'; it may be 'auto' or 'torch' or 'python' or 'never'"):
        runtime.session(program.model, bridge="c++")
    with pytest.raises(runtime.BridgeError, match=r"does not take the model: .*custom_domain:Foo"):
        runtime.session(program.model, bridge="never")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "onnxexp"


def test_no_compiler(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(runtime.BridgeError, match=r"there is none \(no-such-compiler\): install one, or use bridge='python'"):
        bridge_library.library_path()
    assert list(empty_cache.iterdir()) == []


def test_a_compiler_that_fails_leaves_nothing(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(runtime.BridgeError, match=r"false could not build the torch bridge"):
        bridge_library.library_path()
    assert list(empty_cache.iterdir()) == []


def test_two_processes_build_at_once(empty_cache: Path, tmp_path: Path) -> None:
    """Both compilers run at the same time; each moves a whole file into place."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift; done\nprintf half > "$2"; sleep 1; printf whole > "$2"\n')
    compiler.chmod(0o755)
    code = "from onnxexp_custom_cpp.runtime import bridge_library; print(bridge_library.library_path().read_text())"
    environment = {"XDG_CACHE_HOME": str(empty_cache.parent), "CXX": str(compiler), "PATH": "/usr/bin:/bin"}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [process.communicate() for process in processes]
    assert [out.strip() for out, _ in results] == ["whole", "whole"], results
    assert "building the torch bridge" in results[0][1]
    assert [each.suffix for each in empty_cache.iterdir()] == [".so"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows protects folders by access lists")
@pytest.mark.parametrize("open_to_others", ["the file", "the folder", "the folder above", "the owner"])
def test_a_library_that_another_user_could_have_written_is_not_loaded(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, open_to_others: str
) -> None:
    compiler = empty_cache.parent / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift; done\nprintf own > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    planted = bridge_library.library_path()
    assert planted.parent == empty_cache and empty_cache.stat().st_mode & 0o777 == planted.stat().st_mode & 0o777 == 0o700
    assert bridge_library.library_path() == planted  # without a warning
    planted.write_text("planted")
    if open_to_others == "the owner":
        monkeypatch.setattr("os.geteuid", lambda: planted.stat().st_uid + 1)  # every file belongs to another user
        if planted.stat().st_uid == 0:
            os.chown(planted, 12345, 12345)
    else:
        {"the file": planted, "the folder": empty_cache, "the folder above": empty_cache.parent}[open_to_others].chmod(0o777)
    with pytest.warns(UserWarning, match=r"(others can write to|belongs to another user).*set XDG_CACHE_HOME"):
        built = bridge_library.library_path()
    assert built.read_text() == "own" and built.parent.stat().st_mode & 0o777 == 0o700
    assert planted.read_text() == "planted"


def test_a_broken_file_in_the_cache(empty_cache: Path, monkeypatch: pytest.MonkeyPatch, program: onnxexp.ONNXProgram) -> None:
    monkeypatch.setenv("CXX", "true")
    empty_cache.mkdir()
    (empty_cache / f"torch_bridge-{bridge_library._key()}{bridge_library._SUFFIX}").write_text("half a library")
    bridge_library.bridge.cache_clear()
    try:
        with pytest.raises(runtime.BridgeError, match=r"does not load .*: delete it, so that it is built again"):
            runtime.session(program.model)
    finally:
        bridge_library.bridge.cache_clear()


def test_an_unknown_layout_of_the_api_is_refused(tmp_path: Path) -> None:
    """Of another library's functions, only the round trip through a status is called."""
    source = """
        #include <cstdint>
        static const char* other(void*) { return "other"; }
        static int code(void*) { return 0; }
        static void* make(int, const char*) { static int one; return &one; }
        static void nothing(void*) {}
        static const void* table[300];
        static const void* const* get(uint32_t) {
          table[0] = (void*)make; table[1] = (void*)code; table[2] = (void*)other; table[93] = (void*)nothing;
          return table;
        }
        static const char* version() { return "1.99.0"; }
        static const void* base[2] = {(void*)get, (void*)version};
        extern "C" const void* fake_base() { return base; }
    """
    (tmp_path / "fake.cpp").write_text(source)
    subprocess.run(["c++", "-shared", "-fPIC", tmp_path / "fake.cpp", "-o", tmp_path / "fake.so"], check=True)
    import ctypes

    fake = ctypes.CDLL(str(tmp_path / "fake.so")).fake_base
    fake.restype = ctypes.c_void_p
    library = ctypes.CDLL(str(bridge_library.library_path()))
    library.onnxexp_bridge_error.restype = ctypes.c_char_p
    library.RegisterCustomOps.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.RegisterCustomOps.restype = ctypes.c_void_p
    assert library.RegisterCustomOps(None, fake()) is None
    assert library.onnxexp_bridge_error() == b"the C API of ONNX Runtime 1.99.0 has another layout"


def test_a_model_without_custom_operators_is_loaded_as_it_is(tmp_path: Path) -> None:
    program = onnxexp.export(nn.ReLU(), (torch.randn(3),))
    program.save(tmp_path / "model.onnx")
    session = runtime.session(tmp_path / "model.onnx")
    assert isinstance(session, onnxruntime.InferenceSession)
    np.testing.assert_array_equal(session.run(None, {"input": -np.ones(3, np.float32)})[0], np.zeros(3))
    assert onnx.load(tmp_path / "model.onnx").graph.node[0].op_type == "Relu"
