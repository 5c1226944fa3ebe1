"""Weights read past the system's cache, with the same bytes as through the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from safetensors.torch import load_file, save_file

import onnxexp._serialize as serialize
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import SerializeError
from onnxexp._serialize import direct_io, save
from onnxexp._serialize.direct_io import DirectReader, exceeds_cache
from tests.core.tensor_models import model_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="O_DIRECT is Linux's")


@pytest.fixture
def past_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "_WORTH_THREADS", 0)
    monkeypatch.setattr(serialize, "exceeds_cache", lambda size: True)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each weight whether it could be read past the cache."""
    found: list[bool] = []

    def read(reader: DirectReader, path: str, inode: int, offset: int, size: int) -> memoryview | None:
        memory = original(reader, path, inode, offset, size)
        found.append(memory is not None)
        return memory

    original = DirectReader.read
    monkeypatch.setattr(DirectReader, "read", read)
    return found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write weights of odd sizes, above a block together, outside the system's cache."""
    path = tmp_path / "weights.safetensors"
    sizes = [(1999, 1001), (1201, 1777), (1500, 2003)]
    save_file({f"w{number}": torch.randn(size).to([torch.float32, torch.float16][number % 2]) for number, size in
               enumerate(sizes * 2)}, path)  # fmt: skip
    drop(path)
    return path


def drop(path: Path) -> None:
    os.sync()
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_memory(path: Path) -> dict[str, torch.Tensor]:
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    drop(path)
    return tensors


def transposed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: weight.t() for name, weight in weights.items()}


@pytest.mark.parametrize("form", [dict, transposed])
def test_the_same_bytes(
    form: Callable[..., dict[str, torch.Tensor]], checkpoint: Path, tmp_path: Path, request: pytest.FixtureRequest,
    reads: list[bool],
) -> None:  # fmt: skip
    save(model_of(**form(in_memory(checkpoint))), tmp_path / "one.onnx")
    request.getfixturevalue("past_cache")
    save(model_of(**form(load_file(checkpoint))), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
    assert not reads or all(reads), "a file system that has no O_DIRECT reads none, one that has it reads all"


@pytest.mark.usefixtures("past_cache")
def test_a_file_system_without_it(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = in_memory(checkpoint)
    save(model_of(**weights), tmp_path / "one.onnx")
    monkeypatch.setattr(direct_io, "_bypass_cache", lambda file, on: False)
    save(model_of(**weights), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


@pytest.mark.usefixtures("past_cache")
def test_a_path_that_is_another_file_by_now(checkpoint: Path, tmp_path: Path, reads: list[bool]) -> None:
    expected = in_memory(checkpoint)
    mapped = load_file(checkpoint)
    save_file({name: torch.zeros_like(weight) for name, weight in expected.items()}, tmp_path / "other")
    (tmp_path / "other").replace(checkpoint)
    save(model_of(**mapped), tmp_path / "model.onnx")
    assert not any(reads)
    for name, value in ir.load(tmp_path / "model.onnx").graph.initializers.items():
        assert torch.equal(torch.from_numpy(value.const_value.numpy().copy()), expected[name]), name


@pytest.mark.usefixtures("past_cache")
def test_a_file_that_was_truncated_since(checkpoint: Path, tmp_path: Path) -> None:
    mapped = load_file(checkpoint)
    with checkpoint.open("r+b") as file:
        file.truncate(10_000)
    with pytest.raises(SerializeError, match=r"'w\d' is memory-mapped, and its file was truncated since"):
        save(model_of(**mapped), tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.name]


@pytest.mark.usefixtures("past_cache")
def test_a_tensor_that_is_computed_from_a_weight(checkpoint: Path, tmp_path: Path) -> None:
    class Doubled(TorchTensor):
        def pieces(self) -> Iterator[torch.Tensor]:
            return (2 * piece for piece in super().pieces())

    weight = in_memory(checkpoint)["w0"]
    model = model_of(w=load_file(checkpoint)["w0"])
    value = model.graph.initializers["w"]
    value.const_value = Doubled(value.const_value.raw, "w")
    save(model, tmp_path / "model.onnx")
    stored = ir.load(tmp_path / "model.onnx").graph.initializers["w"].const_value.numpy()
    assert torch.equal(torch.from_numpy(stored.copy()), 2 * weight)


def test_a_range_at_the_end_of_a_file(tmp_path: Path) -> None:
    contents, path, reader = os.urandom(10_000), tmp_path / "file", DirectReader()
    path.write_bytes(contents)
    inode = path.stat().st_ino
    memory = reader.read(str(path), inode, 4096, 5904)
    if memory is None:
        pytest.skip("the file system has no O_DIRECT")
    assert bytes(memory[:5904]) == contents[4096:]
    reader.reuse(memory)
    assert reader.read(str(path), inode, 8192, 1809) is None
    assert reader.read(str(tmp_path / "none"), inode, 0, 4096) is None


def test_small_files_are_left_to_the_cache() -> None:
    assert not exceeds_cache(1 << 20) and exceeds_cache(1 << 50)
