"""Versions of torch: a warning for newer ones, and one module for the differences."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest
import torch

from onnxexp._capture import choose_frontend
from onnxexp._torch_compat import NEWEST_TESTED, untested_torch
from tests.core import tiny

ROOT = Path(__file__).resolve().parents[2]
MAY_NAME_TORCHSCRIPT = {"_torch_compat.py", "model_target.py", "tracing_switch.py"}
"""The classes; the command that loads a file; what a trace replaces where torch.jit is; a switch of transformers."""


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "2.15.0+cu132", "not a version"])
def test_a_tested_torch_is_not_warned_of(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    assert untested_torch() == ""


@pytest.mark.parametrize("version", ["2.99.0", "2.99.0.dev20270101+cu140", "3.0.1"])
def test_a_newer_torch_is_warned_of_once(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    choose_frontend.warn_once_if_untested.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                tiny.export(torch.nn.ReLU(), (torch.ones(2),))
    finally:
        choose_frontend.warn_once_if_untested.cache_clear()
    newest = ".".join(map(str, NEWEST_TESTED))
    (warning,) = (each for each in caught if "is newer than" in str(each.message))
    assert str(warning.message).startswith(f"torch {version} is newer than torch {newest}")
    assert warning.filename == tiny.__file__, "the first line outside of onnxexp"


def test_torchscript_is_named_in_one_module_and_its_plugin() -> None:
    """A torch without TorchScript stops nothing else."""
    files = [*(ROOT / "core").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    files = [file for file in files if not {"onnxexp_torchscript", "build"} & set(file.parts)]
    assert {file.name for file in files if names_torchscript(file.read_text("utf-8"))} == MAY_NAME_TORCHSCRIPT


@pytest.mark.parametrize("text", ["import torch.jit", "from torch.jit import trace", "from torch import jit", "torch.jit.trace"])
def test_the_check_finds_each_form(text: str) -> None:
    assert names_torchscript(text) and not names_torchscript("import torch\nfrom torch import nn\ntorch.export")


def names_torchscript(text: str) -> bool:
    if "jit" not in text:  # to parse all files takes 2 s
        return False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(alias.name.startswith("torch.jit") for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (
            (node.module or "").startswith("torch.jit")
            or (node.module == "torch" and "jit" in {each.name for each in node.names})
        ):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "jit" and ast.unparse(node.value) == "torch":
            return True
    return False
