"""Fixtures of the tests of torch.onnx's names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx
from onnxexp_torch_onnx import registry
from onnxexp_torch_onnx.installation import is_installed


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    """Clear the registrations of the process before and after each test."""
    registry.clear()
    yield
    registry.clear()


@pytest.fixture(params=["by its own name", "installed"])
def served(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with `onnxexp_torch_onnx.export`, and once with `torch.onnx.export` where onnxexp is installed."""
    with onnxexp_torch_onnx.installed() if request.param == "installed" else contextlib.nullcontext():
        yield


def exporter() -> Callable[..., Any]:
    """Return the function that a test with `served` exports with."""
    return torch.onnx.export if is_installed() else onnxexp_torch_onnx.export
