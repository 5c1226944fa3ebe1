"""Iterate on a second thread."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

__all__ = ["read_ahead"]

T = TypeVar("T")


def read_ahead(items: Generator[T]) -> Generator[T]:
    """Generate the next item on a second thread while the caller uses the present one.

    An exception of the generator is raised in the place of its item. It is closed in the end.
    """
    end = object()
    with contextlib.closing(items), ThreadPoolExecutor(1, "onnxexp-read-ahead") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield cast(T, item)
