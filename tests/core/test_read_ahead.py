"""Three threads write large files: the same bytes and errors, no thread remains."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import safetensors.torch
import torch

import onnxexp._serialize as serialize
from onnxexp._errors import SerializeError
from onnxexp._serialize import read_ahead, save
from tests.core.tensor_models import mixed, model_of


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "_WORTH_THREADS", 0)


def read_ahead_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "read-ahead" in thread.name]


def test_the_bytes_are_those_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {f"w{i}": torch.randn(3000, 700).t() for i in range(6)}
    safetensors.torch.save_file({name: weight.contiguous() for name, weight in weights.items()}, tmp_path / "mapped")
    mapped = {name: weight.t() for name, weight in safetensors.torch.load_file(tmp_path / "mapped").items()}
    for number, model in enumerate((model_of(**weights), model_of(**mapped), mixed())):
        save(model, tmp_path / "one.onnx")
        with monkeypatch.context() as patch:
            patch.setattr(serialize, "_WORTH_THREADS", 0)
            save(model, tmp_path / "several.onnx")
        assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "several.onnx").read_bytes(), number
    assert not read_ahead_threads()


@pytest.mark.usefixtures("threads")
def test_a_weight_without_data(tmp_path: Path) -> None:
    weights = {f"w{i}": torch.randn(3000, 700) for i in range(4)}
    with pytest.raises(SerializeError, match=r"'hollow'.*has no data"):
        save(model_of(**weights, hollow=torch.empty(300, 300, device="meta")), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    assert not read_ahead_threads()


@pytest.mark.usefixtures("threads")
def test_a_disk_that_fails() -> None:
    class Full:
        def write(self, data: memoryview) -> int:
            if self.room < len(data):
                raise OSError(28, "No space left on device")
            self.room -= len(data)
            return len(data)

        room = 20 << 20

    with pytest.raises(SerializeError, match="No space left"):
        save(model_of(**{f"w{i}": torch.randn(3000, 700) for i in range(4)}), Full())  # type: ignore[arg-type]
    assert not read_ahead_threads()


@pytest.mark.parametrize("count", [1, 3])
def test_items_are_made_while_another_is_used(count: int) -> None:
    made = [threading.Event() for _ in range(5)]

    def items() -> Generator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in read_ahead(items(), count):
        assert all(event.wait(10) for event in made[: number + 1 + count])
