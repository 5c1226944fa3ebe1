"""Weights from a checkpoint: the file of a real model from a model without data."""

from __future__ import annotations

import errno
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import onnxexp
from onnxexp import CaptureError, OptionError, SerializeError
from onnxexp._serialize import WriteOptions, save
from onnxexp._serialize.mapped_files import MappedFiles, _pages
from tests.core.exporting import Affine, X, same, valid
from tests.core.tensor_models import model_of
from tests.core.tiny import export

DYNAMIC = ({0: "batch"},)


class Tied(nn.Module):
    """A tied weight, a buffer in the state dict, and one that no checkpoint has."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 300, bias=False, dtype=dtype)
        self.outer = nn.Linear(300, 3, dtype=dtype)
        self.again = nn.Linear(3, 300, bias=False, dtype=dtype)
        self.again.weight = self.inner.weight
        self.frozen = nn.Parameter(torch.randn(3, dtype=dtype), requires_grad=False)
        self.register_buffer("shift", torch.randn(3, dtype=dtype))
        self.register_buffer("scale", torch.arange(1, 4, dtype=dtype), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(torch.relu(self.outer(self.inner(x))) * self.scale + self.shift + self.frozen)


def empty(make: Callable[[], nn.Module] = Tied) -> nn.Module:
    with onnxexp.meta_parameters():
        return make()


def sharded(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    """Save each tensor into a file of its own."""
    shards = {name: f"model-{number}.safetensors" for number, name in enumerate(tensors)}
    for name, tensor in tensors.items():
        save_file({name: tensor}, folder / shards[name])
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return index


def untied(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the state dict with each tied weight once."""
    found: dict[int, str] = {}
    state = model.state_dict()
    return {
        name: state[name] for name, each in model.state_dict(keep_vars=True).items() if found.setdefault(id(each), name) == name
    }


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Tied()


# The same file


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("form", ["file", "folder", "index", "sharded folder", "tensors"])
def test_the_file_of_the_real_model(dtype: torch.dtype, form: str, tmp_path: Path) -> None:
    model, x = Tied(dtype), torch.randn(2, 3, dtype=dtype)
    whole, shards = tmp_path / "model.safetensors", tmp_path / "shards"
    save_model(model, str(whole))
    shards.mkdir()
    index = sharded(untied(model), shards)
    given = {"file": str(whole), "folder": tmp_path, "index": index, "sharded folder": shards, "tensors": untied(model)}[form]
    for external in (False, True):
        files = [tmp_path / f"{name}-{external}" / "model.onnx" for name in ("real", "hollow")]
        for file, each, weights in zip(files, (model, empty(lambda: Tied(dtype))), (None, given), strict=True):
            file.parent.mkdir()
            export(each, (x,), file, dynamic_shapes=DYNAMIC, weights=weights, external_data=external)
        real, hollow = ({each.name: each.read_bytes() for each in file.parent.iterdir()} for file in files)
        assert real == hollow and len(real) == 1 + external


def test_weights_take_the_place_of_real_ones(model: nn.Module, tmp_path: Path) -> None:
    other = Tied()
    before = untied(other)
    export(model, (X,), tmp_path / "one.onnx")
    export(other, (X,), tmp_path / "other.onnx", weights=untied(model))
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()
    same(untied(other), before)


def test_the_model_stays_as_it_is(model: nn.Module, tmp_path: Path) -> None:
    save_model(model, str(tmp_path / "model.safetensors"))
    hollow = empty()
    before = dict(hollow.named_parameters(remove_duplicate=False))
    program = export(hollow, (X,), weights=tmp_path)
    program.verify()
    after = dict(hollow.named_parameters(remove_duplicate=False))
    assert list(after) == list(before) and all(after[name] is before[name] for name in before)
    assert all(each.is_meta for each in after.values())


def test_a_tied_weight_is_stored_once(model: nn.Module) -> None:
    program = valid(export(empty(), (X,), weights=untied(model)))
    assert sum(value.const_value.nbytes for value in program.model.graph.initializers.values()) < 8000


def test_both_names_of_a_tied_weight(model: nn.Module) -> None:
    assert "inner.weight" in model.state_dict() and "again.weight" in model.state_dict()
    export(empty(), (X,), weights=model.state_dict()).verify()
    state = {**model.state_dict(), "again.weight": model.state_dict()["again.weight"] + 1}
    with pytest.raises(
        OptionError, match=r"inner.weight and again.weight are one parameter of the model, and differ; to fix this, "
    ):
        export(empty(), (X,), weights=state)


# Running such a program


def test_the_program_runs_and_agrees(model: nn.Module, tmp_path: Path) -> None:
    save_model(model, str(tmp_path / "model.safetensors"))
    program = export(empty(), (X,), dynamic_shapes=DYNAMIC, weights=tmp_path)
    for batch in (1, 5):
        x = torch.randn(batch, 3)
        same(program(x), model(x))
        assert program.verify(x).ok
    assert program.verify_sizes().ok and program.find_mismatch().ok


def test_weights_as_inputs(model: nn.Module) -> None:
    program = valid(export(empty(), (X,), weights=untied(model), export_params=False))
    same(program.weights["outer.weight"], model.get_parameter("outer.weight"))
    same(program(X), model(X))


def test_a_forward_that_writes_to_its_weights(tmp_path: Path) -> None:
    class Writes(Affine):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.shift += 1
            return super().forward(x)

    model = Writes()
    file = tmp_path / "model.safetensors"
    save_model(model, str(file))
    before = file.read_bytes()
    program = export(empty(Writes), (X,), weights=file)
    assert program.verify().ok and program.verify().ok
    same(program(X), model(X))
    assert file.read_bytes() == before


def test_the_checkpoint_may_be_removed_before_the_file_is_written(model: nn.Module, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_model(model, str(file))
    program = export(empty(), (X,), weights=file)
    file.unlink()
    program.save(tmp_path / "model.onnx")
    export(model, (X,), tmp_path / "real.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "real.onnx").read_bytes()


# What does not fit


def changed(**changes: Any) -> dict[str, Any]:
    """Return a state dict with other tensors, or without those that are None."""
    state = {**untied(Tied()), **{name.replace("__", "."): tensor for name, tensor in changes.items()}}
    return {name: tensor for name, tensor in state.items() if tensor is not None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (changed(outer__weight=None), r"no weight for outer\.weight: float32\[3, 300\]\n  To fix this, "),
        (
            changed(outer__weight=None, outer__weigth=torch.zeros(3, 300)),
            r"no weight for outer\.weight: float32\[3, 300\] \(did you mean 'outer\.weigth'\?\)\n"
            r"  no outer\.weigth in the model \(did you mean 'outer\.weight'\?\)\n  To fix this, .*read_checkpoint",
        ),
        (changed(outer__bias=None, shift=None), r"no weight for shift: float32\[3\]\n  no weight for outer\.bias: float32\[3\]"),
        (changed(more=torch.zeros(3)), r"no more in the model"),
        (
            changed(frozen=torch.zeros(3).half()),
            r"frozen is float16\[3\], and in the model float32\[3\]\n  To fix this, call model.to\(torch.float16\)",
        ),
        (changed(frozen=torch.zeros(4)), r"frozen is float32\[4\], and in the model float32\[3\]$"),
        (changed(frozen=torch.zeros(3, device="meta")), r"frozen is a fake or meta tensor, without data"),
        (changed(frozen=[1, 2, 3]), r"weights has a list for 'frozen'; to fix this, "),
        (3, r"weights is a int; to fix this, "),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        export(empty(), (X,), weights=given)


def test_a_tensor_that_a_hook_adds_to_the_state_dict(model: nn.Module) -> None:
    def add(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        state["more"] = torch.zeros(2)

    weights = untied(model)
    model._register_state_dict_hook(add)
    export(model, (X,), weights=weights)
    with pytest.raises(OptionError, match="no more in the model"):
        export(model, (X,), weights=model.state_dict())


def test_all_problems_come_at_once() -> None:
    state = changed(outer__weight=None, more=torch.zeros(3), frozen=torch.zeros(4))
    with pytest.raises(OptionError) as raised:
        export(empty(), (X,), weights=state)
    assert all(name in str(raised.value) for name in ("outer.weight", "more", "frozen", "the model Tied do not fit"))


def test_long_lists_are_cut() -> None:
    with pytest.raises(OptionError, match="and 12 more"):
        export(empty(), (X,), weights=changed(**{f"name{number}": torch.zeros(1) for number in range(20)}))


def test_a_buffer_without_data(model: nn.Module) -> None:
    with torch.device("meta"):
        hollow = Tied()
    with pytest.raises(
        OptionError, match=r"no data for scale, a buffer .*\n  To fix this, make it in `with onnxexp.meta_parameters\(\)"
    ):
        export(hollow, (X,), weights=untied(model))


def test_other_models_than_modules(model: nn.Module) -> None:
    with pytest.raises(OptionError, match="weights are for an nn.Module, the model is a ExportedProgram; to fix this, "):
        export(torch.export.export(model, (X,)), weights=untied(model))


def test_a_model_without_weights_and_inputs_on_another_device() -> None:
    class Sum(Affine):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu((x + 1) @ self.weight)

    for options in ({}, {"export_params": False}):
        with pytest.raises(
            CaptureError, match="The model is on the meta device.* to fix this, pass weights=CHECKPOINT, or inputs"
        ):
            export(empty(Sum), (X,), **options)


# Files that cannot be read


def bad_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    save_file({"a": torch.randn(40, 50), "b": torch.randn(5)}, folder / "good")
    good = (folder / "good").read_bytes()
    size = int.from_bytes(good[:8], "little")
    header, body = json.loads(good[8 : 8 + size]), good[8 + size :]

    def file(header: dict[str, Any]) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + body

    yield "truncated", good[:-100]
    yield "truncated header", good[:20]
    yield "empty", b""
    yield "zeros", bytes(1000)
    yield "Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    yield "beyond the end", file({**header, "b": {**header["b"], "data_offsets": [9000, 9020]}})
    yield "overlap", file({**header, "b": {**header["b"], "data_offsets": [0, 20]}})
    yield "other shape", file({**header, "b": {**header["b"], "shape": [6]}})
    yield "unknown dtype", file({**header, "b": {**header["b"], "dtype": "F99"}})


def test_corrupt_files(tmp_path: Path) -> None:
    for what, contents in bad_files(tmp_path):
        file = tmp_path / f"{what}.safetensors"
        file.write_bytes(contents)
        with pytest.raises(OptionError, match=re.escape(f"{file} is no complete safetensors file: ")) as raised:
            onnxexp.read_checkpoint(file)
        assert "to fix this, download or save the checkpoint again" in str(raised.value), what


def test_folders_and_paths(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no file .*nowhere; to fix this, "):
        onnxexp.read_checkpoint(tmp_path / "nowhere")
    with pytest.raises(OptionError, match=r"has neither model.safetensors nor model.safetensors.index.json; to fix this, "):
        onnxexp.read_checkpoint(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(OptionError, match=r"\(it has pytorch_model.bin\); to fix this, .*safetensors.torch.save_model"):
        onnxexp.read_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}', '{"weight_map"', "\0"])
def test_an_index_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(OptionError, match="(is no safetensors index|is not valid JSON).*to fix this, "):
        onnxexp.read_checkpoint(tmp_path)


def test_missing_shards_and_tensors(model: nn.Module, tmp_path: Path) -> None:
    index = sharded(untied(model), tmp_path)
    shards = json.loads(index.read_text())["weight_map"]
    (tmp_path / shards["frozen"]).unlink()
    (tmp_path / shards["shift"]).unlink()
    missing = ", ".join(sorted((shards["frozen"], shards["shift"])))
    with pytest.raises(OptionError, match=f"refers to files that are missing: {missing}; to fix this, "):
        export(empty(), (X,), weights=tmp_path)
    index.write_text(json.dumps({"weight_map": {**shards, "frozen": shards["outer.bias"], "shift": shards["outer.bias"]}}))
    with pytest.raises(OptionError, match=f"tensors that are missing: .*shift in {shards['outer.bias']}.*; to fix this, "):
        export(empty(), (X,), weights=tmp_path)


def test_the_index_decides_between_shards(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3), "b": torch.zeros(2)}, tmp_path / "one")
    save_file({"a": torch.ones(3), "c": torch.ones(2)}, tmp_path / "two")
    for first, second in (("one", "two"), ("two", "one")):
        index = {"weight_map": {"c": "two", "b": "one", "a": first}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        tensors = onnxexp.read_checkpoint(tmp_path)
        assert sorted(tensors) == ["a", "b", "c"] and tensors["a"][0] == (first == "two"), second


def test_safetensors_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(
        OptionError, match="needs the package safetensors, which is not installed; to fix this, run\n  pip install safetensors"
    ):
        onnxexp.read_checkpoint(tmp_path / "model.safetensors")


# Modules without data


def test_parameters_on_the_meta_device() -> None:
    with onnxexp.meta_parameters():
        module = nn.Sequential(nn.LSTM(3, 3), nn.BatchNorm1d(3), nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), Tied())
    assert {name for name, each in module.named_parameters() if not each.is_meta} == set()
    assert {name for name, each in module.named_buffers() if each.is_meta} == set()
    tied = module[3]
    assert isinstance(tied, Tied) and tied.again.weight is tied.inner.weight and not tied.frozen.requires_grad
    assert tied.outer.weight.requires_grad and isinstance(tied.outer.weight, nn.Parameter)
    assert not nn.Linear(2, 2).weight.is_meta, "after the block, parameters are real again"


def test_other_threads_construct_real_modules() -> None:
    made: list[nn.Module] = []
    with onnxexp.meta_parameters():
        thread = threading.Thread(target=lambda: made.append(nn.Linear(2, 2)))
        thread.start()
        thread.join()
    assert not made[0].get_parameter("weight").is_meta


# Memory


def mapped(file: Path) -> dict[str, int]:
    """Read the memory of a mapped file, in kB."""
    text = Path("/proc/self/smaps").read_text()
    block = text[text.index(str(file)) :].split("VmFlags")[0]
    return {match[1]: int(match[2]) for match in re.finditer(r"^(\w+): +(\d+) kB$", block, re.MULTILINE)}


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc and madvise are Linux's")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large.safetensors"
    save_file({"one": torch.randn(1500, 1001), "two": torch.randn(600, 999).half(), "small": torch.randn(5)}, file)
    return file


@LINUX
@pytest.mark.parametrize("queries", [True, False])
def test_which_memory_is_that_of_a_private_file(large: Path, queries: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is queried where it can be; else its table is read."""
    import fcntl  # not on Windows

    def refuse(*args: Any) -> None:
        raise OSError(errno.ENOTTY, "Linux before 6.11")

    if not queries:
        monkeypatch.setattr(fcntl, "ioctl", refuse)
    files = MappedFiles()
    of_file, allocated, shared = onnxexp.read_checkpoint(large)["one"], torch.randn(1500, 1001), torch.randn(1500, 1001)
    assert files._is_of_file(_pages(of_file))
    assert not files._is_of_file(_pages(allocated))
    assert not files._is_of_file(_pages(shared.share_memory_()))


@LINUX
@pytest.mark.parametrize("turned", [False, True])
def test_written_weights_do_not_stay_in_memory(large: Path, turned: bool, tmp_path: Path) -> None:
    tensors = onnxexp.read_checkpoint(large)
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    assert mapped(large)["Rss"] > 7000
    if turned:
        tensors, copies = ({name: each.t() for name, each in some.items()} for some in (tensors, copies))
    for options in (WriteOptions(), WriteOptions(external_data=True)):
        save(model_of(**tensors), tmp_path / "mapped.onnx", options)
        save(model_of(**copies), tmp_path / "copied.onnx", options)
        assert mapped(large)["Rss"] < 1000
        for end in ("", ".data"):
            if (tmp_path / f"mapped.onnx{end}").exists():
                contents = [(tmp_path / f"{name}.onnx{end}").read_bytes() for name in ("mapped", "copied")]
                assert contents[0] == contents[1].replace(b"copied.onnx.data", b"mapped.onnx.data")
    same(tensors, copies)


@LINUX
def test_changed_weights_stay(large: Path, tmp_path: Path) -> None:
    tensors = onnxexp.read_checkpoint(large)
    before = large.read_bytes()
    tensors["one"][7, 5] = 3
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    for _ in range(2):
        save(model_of(**tensors), tmp_path / "mapped.onnx")
        save(model_of(**copies), tmp_path / "copied.onnx")
        assert (tmp_path / "mapped.onnx").read_bytes() == (tmp_path / "copied.onnx").read_bytes()
    assert tensors["one"][7, 5] == 3 and large.read_bytes() == before


@LINUX
def test_a_file_that_was_truncated_since(large: Path, tmp_path: Path) -> None:
    tensors = onnxexp.read_checkpoint(large)
    (tmp_path / "model.onnx").write_bytes(b"before")
    with large.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(
        SerializeError, match="initializer 'one' is memory-mapped, and its file was truncated since.*to fix this, "
    ):
        save(model_of(one=tensors["one"]), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"before"
