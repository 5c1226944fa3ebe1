"""A C++ operator in every frontend and at several versions, run in four ways."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxscript import FLOAT, opset20, script
from onnxscript.values import Opset
from torch import Tensor, nn

import onnxexp
from onnxexp_custom_cpp import Operator, OperatorTable, register_op, runtime
from tests.custom_cpp.foo_op import ort_library, torch_library

pytestmark = pytest.mark.usefixtures("foo", "registrations")


class Foo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.ops.cpp_ops.foo_forward(x.relu(), y, 0.5, 3)


ATTRS = {"attr1": "f", "attr2": "i"}


def exported(capture: str = "export", model: nn.Module | None = None, **options: Any) -> onnxexp.ONNXProgram:
    example = torch.randn(3, 4), torch.randn(3, 4)
    program = onnxexp.export(model or Foo(), example, capture=capture, dynamic_shapes=({0: "n"}, {0: "n"}), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def feeds(rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(rows)
    return {name: generator.standard_normal((rows, 4)).astype(np.float32) for name in ("x", "y")}


def expected(given: dict[str, Any]) -> Any:
    return np.maximum(given["x"], 0) * np.float32(0.5) + given["y"] * 3


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_one_node_at_the_version_of_the_call(capture: str, version: int) -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", version=1, attrs=ATTRS)
    program = exported(capture, custom_opsets={"custom_domain": version})
    assert program.model.opset_imports["custom_domain"] == version
    (node,) = [node for node in program.model.graph if node.domain == "custom_domain"]
    assert (node.op_type, node.attributes["attr1"].value, node.attributes["attr2"].value) == ("Foo", 0.5, 3)
    assert [str(size) for size in program.model.graph.outputs[0].shape or ()] == ["n", "4"]


def test_an_exported_program_of_strict_mode() -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    example = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(Exception, match=r"foo_forward"):  # torch itself wants a fake kernel
        torch.export.export(Foo(), example, strict=True)
    with pytest.MonkeyPatch.context() as patch:
        non_strict = torch.export.export
        patch.setattr(torch.export, "export", lambda *args, strict, **kwargs: non_strict(*args, strict=True, **kwargs))
        program = exported()
    assert "Foo" in [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("versions", [(1, 2), (2, 1)])
@pytest.mark.parametrize(("imported", "name"), [(None, "second"), (1, "first"), (2, "second"), (3, "second")])
def test_the_version_decides_between_two_forms(versions: tuple[int, ...], imported: int | None, name: str) -> None:
    def form(attribute: str) -> Callable[..., Any]:
        return lambda op, x, y, attr1, attr2: op.domain("custom_domain").Foo(x, y, **{attribute: attr1})

    for version in versions:
        symbolic = form("first" if version == 1 else "second")
        register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", version=version, symbolic=symbolic)
    program = exported(custom_opsets={} if imported is None else {"custom_domain": imported})
    (node,) = [node for node in program.model.graph if node.domain == "custom_domain"]
    assert list(node.attributes) == [name]
    assert program.model.opset_imports["custom_domain"] == (imported or 2)


def test_a_version_below_every_form_is_an_error() -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", version=2, attrs=ATTRS)
    with pytest.raises(onnxexp.LoweringError, match=r"registered for custom_domain version 2, and the model imports version 1"):
        exported(custom_opsets={"custom_domain": 1})


def test_two_operators_want_two_versions_of_one_domain() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.ops.cpp_ops.bar(torch.ops.cpp_ops.foo_forward(x, y, 1.0, 1), None, [y], True, [1])[0]

    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", version=2, attrs=ATTRS)
    register_op("cpp_ops::bar", onnx="custom_domain::Bar", version=3)
    with pytest.raises(onnxexp.LoweringError, match=r"needs version 3 of custom_domain.*imports 2.*custom_opsets"):
        exported(model=Both())
    program = exported(model=Both(), custom_opsets={"custom_domain": 3})
    assert program.model.opset_imports["custom_domain"] == 3


def test_a_table_in_a_plugin() -> None:
    class Pack:
        symbolics = OperatorTable(Operator("cpp_ops::foo_forward", "acme::Foo", version=4, attrs=ATTRS))

    program = exported(plugins=[Pack(), ...])
    assert program.model.opset_imports["acme"] == 4


def ways(tmp_path: Path) -> dict[str, Any]:
    """Provide sessions that run the operator in each way.

    The ways are a library, a body, the torch bridge, and ONNX's reference evaluator.
    """
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    plain = exported()
    register_op(
        "cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS, override=True,
        body=lambda input1, input2, attr1, attr2: input1 * attr1 + input2 * attr2,
    )  # fmt: skip
    with_body = exported()
    for name, program in (("plain", plain), ("body", with_body)):
        program.save(tmp_path / f"{name}.onnx")
    return {
        "library": runtime.session(tmp_path / "plain.onnx", libraries=[ort_library()], bridge="never"),
        "library beside a body": runtime.session(tmp_path / "body.onnx", libraries=[ort_library()], bridge="never"),
        "body": onnxruntime.InferenceSession(tmp_path / "body.onnx"),
        "bridge": runtime.session(tmp_path / "plain.onnx"),
        "bridge beside a body": runtime.session(tmp_path / "body.onnx", bridge="torch"),
        "reference evaluator": onnx.reference.ReferenceEvaluator(str(tmp_path / "body.onnx")),
    }


def test_every_way_to_run_it_gives_the_same(tmp_path: Path) -> None:
    sessions = ways(tmp_path)
    for rows in (1, 3, 8):
        given = feeds(rows)
        for name, session in sessions.items():
            np.testing.assert_allclose(session.run(None, given)[0], expected(given), rtol=1e-6, err_msg=name)


def test_python_runs_it_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime_extensions", reason="the package is optional")
    monkeypatch.setenv("CXX", "no-compiler")
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    session = runtime.session(exported().model, bridge="python")
    for rows in (1, 5):
        np.testing.assert_allclose(session.run(None, feeds(rows))[0], expected(feeds(rows)), rtol=1e-6)


def test_a_call_of_the_program_and_verify_use_the_bridge() -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    program = exported(verify=True)
    torch.testing.assert_close(program(torch.ones(7, 4), torch.ones(7, 4)), torch.full((7, 4), 3.5))


def test_arguments_of_every_kind() -> None:
    class Bar(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            first, second = torch.ops.cpp_ops.bar(x, y, [x, y], True, [1, 2])
            third, _ = torch.ops.cpp_ops.bar(x, None, [], False, [x.shape[1]])
            return first, second, third

    register_op("cpp_ops::bar", onnx="custom_domain::Bar", attrs={"twice": "i", "sizes": "is"})
    for capture in ("export", "trace"):
        program = exported(capture, model=Bar())
        first, third = (node for node in program.model.graph if node.op_type == "Bar")
        assert (len(first.inputs), first.attributes["twice"].value, list(first.attributes["sizes"].value)) == (4, 1, [1, 2])
        assert len(third.inputs) == 1
        program.verify()
        program.verify((torch.randn(6, 4), torch.randn(6, 4)))


def test_numbers_that_are_no_attributes_are_inputs() -> None:
    class Sized(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.ops.cpp_ops.scaled(x, 2.0, x.shape[0]) + y

    register_op("cpp_ops::scaled", onnx="custom_domain::Scaled", attrs={"by": "f"})
    program = exported(model=Sized())
    for rows in (2, 5):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        torch.testing.assert_close(program(x, y), 2 * x + rows + y)
    register_op("cpp_ops::scaled", onnx="custom_domain::Scaled", override=True)
    with pytest.raises(onnxexp.LoweringError, match=r"plus is computed when the model runs.*leave plus out of attrs"):
        exported(model=Sized())


def test_the_body_of_an_onnxscript_function() -> None:
    domain = Opset("custom_domain", 1)

    @script(domain, default_opset=opset20)
    def Foo(input1: FLOAT[...], input2: FLOAT[...], attr1: float, attr2: int) -> FLOAT[...]:
        factor = opset20.Cast(opset20.Constant(value_int=attr2), to=1)
        return opset20.Add(opset20.Mul(input1, opset20.Constant(value_float=attr1)), opset20.Mul(input2, factor))

    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS, body=Foo)
    session = onnxruntime.InferenceSession(exported().model_proto.SerializeToString())
    np.testing.assert_allclose(session.run(None, feeds(5))[0], expected(feeds(5)), rtol=1e-6)


def test_bodies_differ_where_the_calls_do() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            foo = torch.ops.cpp_ops.foo_forward
            return foo(foo(x, y, 0.5, 3), y, 2.0, 1) + foo(x.sum(0), y.sum(0), 2.0, 1)

    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS, body=lambda a, b, s, n: a * s + b * n)
    program = exported(model=Twice())
    assert len(program.model.functions) == 3
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    given = feeds(5)
    wanted = Twice()(*map(torch.from_numpy, given.values()))
    np.testing.assert_allclose(session.run(None, given)[0], wanted.numpy(), rtol=1e-5)


def test_a_fresh_process_runs_the_file(tmp_path: Path) -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS, libraries=[str(torch_library())])
    program = exported()
    program.save(tmp_path / "model.onnx")
    assert json.loads(program.model.metadata_props["onnxexp.torch_operators"]) == {
        "custom_domain::Foo": {
            "torch": "cpp_ops::foo_forward",
            "attributes": {"attr1": "attr1", "attr2": "attr2"},
            "libraries": [str(torch_library())],
        }
    }
    code = (
        "import sys, numpy; from onnxexp_custom_cpp import runtime; session = runtime.session(sys.argv[1], trusted=True);"
        "ones = numpy.ones((2, 4), numpy.float32); print(session.run(None, {'x': ones, 'y': ones})[0].tolist());"
        "assert 'onnxexp._pipeline' not in sys.modules and 'onnxexp._torch_export.frontend' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model.onnx"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([[3.5] * 4] * 2)


def test_the_command_verify_runs_the_operator(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(
        "import torch\n"
        "from onnxexp_custom_cpp import register_op\n"
        f"torch.ops.load_library({str(torch_library())!r})\n"
        "register_op('cpp_ops::foo_forward', onnx='custom_domain::Foo')\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.ops.cpp_ops.foo_forward(x, x, 0.5, 3)\n"
        "def make():\n"
        "    return Model(), (torch.randn(3, 4),)\n"
    )
    command = [sys.executable, "-m", "onnxexp"]
    for arguments in (
        ["export", "models.py:make", "-o", "model.onnx", "--dynamic", "x:0=n", "--verify"],
        ["verify", "model.onnx", "--against", "models.py:make", "--sizes", "n=5"],
    ):
        done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
