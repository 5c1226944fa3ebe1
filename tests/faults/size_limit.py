"""A limit on the size of files, which is like a disk that is full."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def size_limit(size: int) -> Iterator[None]:
    """Limit the size of the files that this process writes inside the `with`.

    A write beyond the limit raises OSError.
    """
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
