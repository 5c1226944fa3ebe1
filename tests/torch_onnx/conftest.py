"""Fixtures of the tests of torch.onnx's names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnxexp_torch_onnx import registry


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    """Clear the registrations of the process before and after each test."""
    registry.clear()
    yield
    registry.clear()
