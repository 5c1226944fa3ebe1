"""The TorchScript plugin: switching it off, recorded facts, its command line."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onnxexp
import onnxexp_torchscript
from onnxexp import Builder, SymbolicTable, Tensor
from tests.core.commanding import run
from tests.core.test_reshaping import CASES, check_sizes
from tests.core.tiny import TINY

X = torch.randn(2, 3)


def branching(x: torch.Tensor) -> torch.Tensor:
    return x.relu() if x.sum() > 0 else x


@pytest.mark.parametrize("how", ["trace", "script", "auto", "scripted"])
@pytest.mark.parametrize("setting", ["without", "plugins", "variable"])
def test_where_it_is_switched_off(how: str, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.jit.script(torch.nn.ReLU()) if how == "scripted" else branching
    options: dict[str, Any] = {} if how == "scripted" else {"capture": how}
    if setting == "variable":
        monkeypatch.setenv("ONNXEXP_DISABLE", "torchscript")
    else:
        options |= {"without": ["torchscript"]} if setting == "without" else {"plugins": [TINY]}
    reason = {
        "without": "disabled by the call",
        "plugins": "not among the plugins of the call",
        "variable": "disabled by ONNXEXP_DISABLE",
    }[setting]
    with pytest.raises(onnxexp.CaptureError) as raised:
        onnxexp.export(model, (X,), **options)
    assert str(raised.value).endswith(
        f"needs the plugin 'torchscript', which is switched off: {reason}; to fix this, switch it on there"
    )
    assert ("torch.export (strict=False)" in str(raised.value)) == (how == "auto")


def test_a_model_that_it_captures_records_it() -> None:
    used = {
        capture: onnxexp.export(torch.nn.ReLU(), (X,), capture=capture, plugins=[TINY, "torchscript"]).model.metadata_props
        for capture in ("export", "trace", "script")
    }
    version = "onnxexp-plugin-torchscript 0.1.0"
    assert [props["onnxexp.plugins"].split("; ")[1:] for props in used.values()] == [[], [version], [version]]


def test_it_may_be_given_to_the_call() -> None:
    program = onnxexp.export(torch.nn.ReLU(), (X,), capture="trace", plugins=[TINY, onnxexp_torchscript.plugin])
    assert [plugin.name for plugin in program.plugins] == ["inline TorchScript 1", "inline aten"]
    program.verify()


def test_the_command_line_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("branches.py").write_text(
        "import torch\ndef branching(x):\n    return x.relu() if x.sum() > 0 else x\n"
        "def make(): return branching, (torch.ones(2, 3),)\n"
    )
    assert run(capsys, "export", "branches.py:make", "-o", "traced.onnx", "--capture", "trace").status == 0
    assert [node.op_type for node in onnx.load("traced.onnx").graph.node] == ["Relu"]
    sys.modules.pop("branches", None)


def test_the_command_line_takes_a_torchscript_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.jit.script(torch.nn.ReLU()).save("relu.pt")
    given = ["--input", "float32[2,3]", "--dynamic", "input:0=n", "--verify"]
    ran = run(capsys, "export", "relu.pt", "-o", "relu.onnx", *given)
    assert ran.status == 0 and "inputs   input: float32[n, 3]" in ran.out, ran.err
    assert run(capsys, "verify", "relu.onnx", "--against", "relu.pt", *given[:2], "--sizes", "n=5").status == 0


def test_what_an_export_built_with_is_gone_when_it_is_done() -> None:
    built: list[weakref.ref[Builder]] = []

    def hold(op: Builder, self: Tensor) -> Tensor:
        built.append(weakref.ref(op))
        return op.Erf(self)  # type: ignore[no-any-return]

    table = SymbolicTable("aten")
    table("erf")(hold)
    gc.disable()
    try:
        program = onnxexp.export(torch.erf, (X,), plugins=[table, "torchscript"], capture="trace")
        assert [ref() for ref in built] == [None]
    finally:
        gc.enable()
    program.verify()


@pytest.mark.parametrize(("function", "sizes"), CASES)
def test_sizes_of_a_reshape_are_the_calls(function: Callable[[torch.Tensor], torch.Tensor], sizes: str) -> None:
    check_sizes(function, sizes, "trace")
