"""Iterate on a second thread."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")


def read_ahead(items: Generator[T], count: int) -> Generator[T]:
    """Generate a few items on a second thread while the caller uses others.

    An exception of the generator is raised in the place of its item. The generator is closed in the end.
    """
    end = object()
    with contextlib.closing(items), ThreadPoolExecutor(1, "onnxexp-read-ahead") as thread:
        coming = collections.deque(thread.submit(next, items, end) for _ in range(count))
        while (item := coming.popleft().result()) is not end:
            coming.append(thread.submit(next, items, end))
            yield cast(T, item)
