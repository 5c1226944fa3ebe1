"""capture/modes.py: a capture restores torch's state, also after a failure."""

from __future__ import annotations

import contextlib
import gc
import threading
import types
from collections.abc import Iterator

import pytest
import torch

import onnxexp
from onnxexp._capture import torch_state
from onnxexp._capture.torch_state import replace_attributes, torch_mode


def test_what_cannot_all_be_replaced_is_not_replaced_at_all() -> None:
    owner = types.SimpleNamespace(name=len)
    table = [(owner, "name", abs), (owner, "other", abs), (int, "bit_length", abs)]
    with pytest.raises(TypeError, match="immutable type"), replace_attributes(table):
        pytest.fail("int takes no attributes")
    assert vars(owner) == {"name": len}


@pytest.mark.parametrize(("threshold", "inside"), [(700, 10_000), (20_000, 20_000), (0, 0)])
def test_an_export_searches_for_garbage_rarely(threshold: int, inside: int) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(gc.get_threshold()[0])
            raise ValueError("too small")

    seen: list[int] = []
    before = gc.get_threshold()
    gc.set_threshold(threshold, *before[1:])
    try:
        with pytest.raises(onnxexp.CaptureError, match="too small"):
            onnxexp.export(Model(), (torch.ones(1),), capture="trace")
        assert set(seen) == {inside} and gc.get_threshold() == (threshold, *before[1:])
    finally:
        gc.set_threshold(*before)


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
