"""A torch without TorchScript: an error of the plugin, and all else works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import builtins, contextlib, io, json, warnings

import torch

imported = builtins.__import__


def without_torchscript(name, globals=None, locals=None, fromlist=(), level=0):
    """Import for anyone; onnxexp and its plugins find no torch.jit, which torch itself still uses."""
    if name.startswith("torch.jit") and str((globals or {}).get("__name__")).startswith("onnxexp"):
        raise ModuleNotFoundError("No module named 'torch.jit'", name="torch.jit")
    return imported(name, globals, locals, fromlist, level)


builtins.__import__ = without_torchscript
import onnxexp
from onnxexp import _cli as cli

model, x = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.randn(4, 3)
reported = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "batch"},))
    program.verify(x[:1])
    reported["warnings"] = [str(each.message) for each in caught if "TorchScript" in str(each.message)]
    for capture in ("trace", "script"):
        try:
            onnxexp.export(model, (x,), capture=capture)
        except onnxexp.CaptureError as error:
            reported[capture] = str(error)
for command in (["plugins", "--load", "--json"], ["doctor", "--json"]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        cli.main(command)
    reported[command[0]] = json.loads(out.getvalue())
print(json.dumps(reported))
'''
NONE = "has no TorchScript (torch.jit)"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict:
    file: Path = tmp_path_factory.mktemp("script") / "script.py"
    file.write_text(SCRIPT, "utf-8")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_model_exports_and_one_warning_names_the_plugin(reported: dict) -> None:
    (warning,) = reported["warnings"]
    assert "the plugin 'torchscript'" in warning and NONE in warning


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_a_trace_is_refused_with_the_reason_and_the_fix(reported: dict, capture: str) -> None:
    assert NONE in reported[capture] and "to fix this, use capture='export'" in reported[capture]


def test_the_commands_show_the_state_of_the_plugin(reported: dict) -> None:
    states = {each["name"]: each for each in reported["plugins"]}
    assert NONE in json.dumps(states.pop("torchscript"))
    assert not [name for name, each in states.items() if "TorchScript" in json.dumps(each)]
    problems = [each["text"] for each in reported["doctor"]["findings"] if each["kind"] == "problem"]
    assert [text for text in problems if NONE in text]
    assert not [text for text in problems if "does not load" in text and "'torchscript'" not in text]
