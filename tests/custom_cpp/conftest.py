"""The operators and the bridge that the tests of this folder share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxexp_custom_cpp.registry import REGISTERED
from tests.custom_cpp.foo_op import load_foo


@pytest.fixture(autouse=True, scope="session")
def _cache() -> Iterator[None]:
    """Share one build of the torch bridge, in a cache folder that is not the user's."""
    folder = Path(tempfile.gettempdir()) / "onnxexp-tests-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(scope="session")
def foo() -> None:
    """Load `cpp_ops::foo_forward` and `cpp_ops::bar`."""
    load_foo()


@pytest.fixture
def registrations() -> Iterator[None]:
    """Remove what a test registers."""
    before = {name: dict(versions) for name, versions in REGISTERED._versions.items()}
    yield
    for name, versions in REGISTERED._versions.items():
        versions.clear()
        versions.update(before.get(name, {}))
