"""The operators whose bodies are being exported: inside, they are decomposed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_NAMES: ContextVar[frozenset[str]] = ContextVar("_NAMES", default=frozenset())


def bodies_in_work() -> frozenset[str]:
    """Return the ONNX operators whose bodies are being exported."""
    return _NAMES.get()


@contextlib.contextmanager
def working_on(name: str) -> Iterator[None]:
    """Export the body of an operator inside."""
    token = _NAMES.set(_NAMES.get() | {name})
    try:
        yield
    finally:
        _NAMES.reset(token)
