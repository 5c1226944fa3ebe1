"""Bodies whose export is in progress: their operators are decomposed meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_OPERATORS: ContextVar[frozenset[str]] = ContextVar("_OPERATORS", default=frozenset())


def bodies_in_progress() -> frozenset[str]:
    """Return the ONNX operators whose bodies are being exported."""
    return _OPERATORS.get()


@contextlib.contextmanager
def body_in_progress(operator: str) -> Iterator[None]:
    """Mark the body of an ONNX operator as being exported inside the `with`."""
    token = _OPERATORS.set(_OPERATORS.get() | {operator})
    try:
        yield
    finally:
        _OPERATORS.reset(token)
