"""Fixtures of the tests of recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Run a test without oneDNN.

    oneDNN compiles eager's LSTM anew for every shape, which takes longer than all else in the tests of recurrent layers.
    """
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(True)
