"""capture/modes.py: a capture restores torch's state, also after a failure."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator

import pytest
import torch

from onnxexp._capture import torch_state
from onnxexp._capture.torch_state import replace_attributes, torch_mode


def test_what_cannot_all_be_replaced_is_not_replaced_at_all() -> None:
    owner = types.SimpleNamespace(name=len)
    table = [(owner, "name", abs), (owner, "other", abs), (int, "bit_length", abs)]
    with pytest.raises(TypeError, match="immutable type"), replace_attributes(table):
        pytest.fail("int takes no attributes")
    assert vars(owner) == {"name": len}


def test_a_mode_that_cannot_be_left_in_order_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def broken() -> Iterator[None]:
        yield
        raise RuntimeError("torch.func's stack is broken")

    monkeypatch.setattr(torch_state, "unwind_functorch", broken)
    with pytest.raises(RuntimeError, match="stack is broken"), torch_mode():
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    free: list[bool] = []

    def take() -> None:
        free.append(torch_state.LOCK.acquire(timeout=5))
        if free == [True]:
            torch_state.LOCK.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    assert free == [True]
