"""The release of the installed torch, and marks of tests that a torch fails."""

from __future__ import annotations

import pytest
import torch
from packaging.version import Version

RELEASE = Version(torch.__version__).release[:2]
"""The release of the installed torch, such as (2, 13)."""


def needs_torch(release: tuple[int, int], reason: str) -> pytest.MarkDecorator:
    """Skip a test with an older torch."""
    return pytest.mark.skipif(release > RELEASE, reason=f"torch before {'.'.join(map(str, release))}: {reason}")
