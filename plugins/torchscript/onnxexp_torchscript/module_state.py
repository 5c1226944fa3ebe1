"""The state of a model and of the random generators around a trace."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch

__all__ = ["RandomState", "restored_attributes"]


@contextlib.contextmanager
def restored_attributes(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Undo what a run writes to the attributes of modules.

    Undo what it writes into lists, dicts (of hooks, too) and tensors that are attributes as well. Writes into buffers are for
    `restored_buffers`.
    """
    before = [(vars(module), dict(vars(module))) for module in modules if not isinstance(module, torch.jit.ScriptModule)]
    contents = [(held, _copy(held)) for _, saved in before for held in saved.values() if _is_written(held)]
    try:
        yield
    finally:
        for attributes, saved in before:
            if attributes.keys() != saved.keys() or any(attributes[name] is not held for name, held in saved.items()):
                attributes.clear()
                attributes.update(saved)
        for held, copy in contents:
            _write_back(held, copy)


def _is_written(held: Any) -> bool:
    return isinstance(held, (list, dict, set)) or (type(held) is torch.Tensor and not held.is_inference())


def _copy(held: Any) -> Any:
    return (held._version, held.detach().clone()) if isinstance(held, torch.Tensor) else held.copy() if held else ()


def _write_back(held: Any, copy: Any) -> None:
    """Write earlier contents back, where they have changed."""
    if isinstance(held, torch.Tensor):
        version, contents = copy
        if held._version != version and held.shape == contents.shape:
            with torch.no_grad():
                held.copy_(contents)
    elif len(held) != len(copy) or any(one is not other for one, other in zip(_parts(held), _parts(copy), strict=True)):
        held.clear()
        held.extend(copy) if isinstance(held, list) else held.update(copy)


def _parts(held: Any) -> list[Any]:
    return [*held, *held.values()] if isinstance(held, dict) else list(held)


class RandomState:
    """The state of the random generators of torch, Python and NumPy."""

    def __init__(self) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._numpy = numpy.random if numpy is not None else None
        self._states = torch.get_rng_state(), random.getstate(), self._numpy.get_state() if self._numpy is not None else None

    def restore(self) -> None:
        """Go back to the state."""
        torch_state, python_state, numpy_state = self._states
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if self._numpy is not None:
            self._numpy.set_state(numpy_state)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Run with this state, then go back to the state of now."""
        now = RandomState()
        self.restore()
        try:
            yield
        finally:
            now.restore()
