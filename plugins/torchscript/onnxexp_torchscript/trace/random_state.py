"""The state of the random generators around a trace."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch


class RandomState:
    """The state of the random generators of torch, Python and NumPy."""

    def __init__(self) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._numpy = numpy.random if numpy is not None else None
        self._states = torch.get_rng_state(), random.getstate(), self._numpy.get_state() if self._numpy is not None else None

    def restore(self) -> None:
        """Give the generators this state."""
        torch_state, python_state, numpy_state = self._states
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if self._numpy is not None:
            self._numpy.set_state(numpy_state)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Run a block with this state, then restore the present one."""
        present = RandomState()
        self.restore()
        try:
            yield
        finally:
            present.restore()
