"""Iterate on a second thread."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

__all__ = ["read_ahead"]

T = TypeVar("T")


def read_ahead(items: Iterator[T]) -> Generator[T]:
    """Generate the next item on a second thread while the caller uses the present one.

    An exception of the iterator is raised in the place of its item.
    """
    end = object()
    with ThreadPoolExecutor(1, "onnxexp-read-ahead") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield cast(T, item)
