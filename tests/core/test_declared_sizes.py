"""Sizes in a file are data: they are computed, never run, in bounded time."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from onnxexp._symbolic_size import SymbolicSize
from tests.core.commanding import run

RUNS_A_COMMAND = (
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
    ".__init__.__globals__['system']('touch ran')"
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2*batch + 1", 7),
        ("(batch + 1)//2", 2),
        ("max(batch, args.0_dim_1)", 5),
        ("-batch + 4", 1),
        ("args.0_dim_1 % 2", 1),
        ("4*batch/2", 6),
        ("batch/2", None),
        ("batch**2", 9),
        ("floor(batch/2)", 1),
        ("batch//0", None),
        ("other + 1", None),
        ("trunctoint(batch)", None),
        ("", None),
    ],
)
def test_size(text: str, size: int | None) -> None:
    assert SymbolicSize(text).at({"batch": 3, "args.0_dim_1": 5}) == size


@pytest.mark.parametrize(
    "text",
    [
        RUNS_A_COMMAND,
        "__import__('os').system('touch ran')",
        "9**9**9**9",
        "*".join(["9**64"] * 1000),
        "(" * 3000 + "1" + ")" * 3000,
        "-" * 9000 + "1",
        "1+" * 100_000 + "1",
        "max(*[1])",
        "'a'*9",
        "\0",
    ],
    ids=lambda text: text[:16].replace("\0", "NUL"),
)
def test_hostile_size_is_unknown(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SymbolicSize(text).at({}) is None
    assert not (tmp_path / "ran").exists()


def test_axis_of_a_file_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", RUNS_A_COMMAND])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), "file.onnx")
    Path("relu_model.py").write_text("import torch\ndef relu():\n    return torch.nn.ReLU(), (torch.randn(2, 3),)\n")
    run(capsys, "verify", "file.onnx", "--against", "relu_model.py:relu")
    assert not Path("ran").exists()
