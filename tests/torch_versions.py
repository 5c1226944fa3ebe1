"""Marks of tests that a torch fails, with the reason."""

from __future__ import annotations

import pytest

from onnxexp._torch_compat import RELEASE

__all__ = ["needs_torch"]


def needs_torch(release: tuple[int, int], reason: str) -> pytest.MarkDecorator:
    """Skip a test with an older torch."""
    return pytest.mark.skipif(release > RELEASE, reason=f"torch before {'.'.join(map(str, release))}: {reason}")
