"""Models become files: the right bytes at the right place."""

from __future__ import annotations

import gzip
import io
import os
import stat
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper

from onnxexp._builder.dtypes import onnx_dtype, torch_dtype
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import OptionError, SerializeError
from onnxexp._serialize import WriteOptions, save, to_proto
from tests.core.tensor_models import EXTERNAL, mixed, model_of, noise, raw, values

DTYPES = [torch_dtype(data_type) for data_type in sorted(ir.DataType) if data_type.name not in {"UNDEFINED", "STRING"}
          and data_type.bitwidth >= 8 and data_type in onnx.TensorProto.DataType.values()]  # fmt: skip
RUNTIME = {"float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_by_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {
        "small": noise(dtype, 3),
        "plain": noise(dtype, 70, 300),
        "turned": noise(dtype, 400, 300).t(),
        "none": noise(dtype, 1)[:0],
    }
    model = model_of(**tensors)
    for options in (WriteOptions(), EXTERNAL):
        path = tmp_path / "model.onnx"
        save(model, path, options)
        proto = onnx.load(path)
        onnx.checker.check_model(path)
        for tensor_proto in proto.graph.initializer:
            tensor = tensors[tensor_proto.name]
            assert tensor_proto.data_type == onnx_dtype(dtype)
            assert tuple(tensor_proto.dims) == tuple(tensor.shape)
            if dtype != torch.bfloat16 or onnx.defs.onnx_opset_version() > 23:  # onnx 1.17 and 1.18 read it as float32
                assert numpy_helper.to_array(tensor_proto).tobytes() == raw(tensor)
        loaded = ir.load(path)
        assert {name: value.const_value.tobytes() for name, value in loaded.graph.initializers.items()} == {  # type: ignore[union-attr]
            name: raw(tensor) for name, tensor in tensors.items()
        }
        if str(dtype).removeprefix("torch.") in RUNTIME:
            assert {name: value.tobytes() for name, value in values(path).items()} == {
                name: raw(t) for name, t in tensors.items()
            }


def test_tensors_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    model = model_of(weight=torch.empty(300, 300, device="meta"))
    with pytest.raises(SerializeError, match=r"'weight'.*has no data.*Load the weights"):
        save(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_message_is_that_of_protobuf(tmp_path: Path) -> None:
    model = mixed()
    save(model, tmp_path / "model.onnx")
    expected = to_proto(model)
    assert onnx.load(tmp_path / "model.onnx") == expected
    reference = ir.to_proto(model)
    assert [tensor.SerializeToString() for tensor in expected.graph.initializer] == [
        tensor.SerializeToString() for tensor in reference.graph.initializer
    ]
    for proto in (expected, reference):
        del proto.graph.initializer[:], proto.graph.value_info[:]
    assert expected == reference


def test_tensors_of_shared_contents_keep_their_own_names() -> None:
    shared = TorchTensor(torch.randn(5), "first")
    assert [tensor.name for tensor in to_proto(model_of(a=shared, b=shared)).graph.initializer] == ["a", "b"]
    assert shared.name == "first"


def test_an_initializer_without_value(tmp_path: Path) -> None:
    model = model_of(a=torch.randn(5))
    model.graph.initializers["a"].const_value = None
    with pytest.raises(SerializeError, match="'a' has no value"):
        save(model, tmp_path / "model.onnx")


def test_external_data_lies_beside_the_model(tmp_path: Path) -> None:
    model = mixed()
    saved = save(model, tmp_path / "model.onnx", EXTERNAL)
    assert saved.paths == (tmp_path / "model.onnx", tmp_path / "model.onnx.data")
    assert saved.bytes == sum(path.stat().st_size for path in saved.paths)
    proto = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    places = {tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in proto.graph.initializer}
    assert {name for name, place in places.items() if place} == {"w", "b", "table"}
    assert {place["location"] for place in places.values() if place} == {"model.onnx.data"}
    assert all(int(place["offset"]) % 4096 == 0 for place in places.values() if place)
    onnx.checker.check_model(tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx").graph.initializer[0].raw_data == to_proto(model).graph.initializer[0].raw_data
    assert ir.load(tmp_path / "model.onnx").graph.initializers["table"].const_value.numpy()[-1] == 8999  # type: ignore[union-attr]


def test_runtime_reads_external_data(tmp_path: Path) -> None:
    tensors = {"w": torch.randn(700, 900).t(), "b": torch.randn(900), "n": torch.tensor(3)}
    save(model_of(**tensors), tmp_path / "model.onnx", EXTERNAL)
    for name, value in values(tmp_path / "model.onnx").items():
        assert value.tobytes() == raw(tensors[name])


def test_nothing_is_external_where_everything_is_small(tmp_path: Path) -> None:
    assert save(model_of(a=torch.randn(5)), tmp_path / "model.onnx", EXTERNAL).paths == (tmp_path / "model.onnx",)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = mixed()
    contents = []
    for _ in range(3):
        pair = save(model, tmp_path / "pair.onnx", EXTERNAL).paths
        stream = io.BytesIO()
        save(model, stream)
        contents.append([*(path.read_bytes() for path in pair), stream.getvalue()])
        assert sorted(os.listdir(tmp_path)) == ["pair.onnx", "pair.onnx.data"]
    assert contents[0] == contents[1] == contents[2]


class Dribble(io.RawIOBase):
    """A raw stream that takes a little at a time."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.taken += data[:7000]
        return min(len(data), 7000)


def test_binary_file_objects(tmp_path: Path) -> None:
    model = mixed()
    save(model, tmp_path / "model.onnx")
    expected = (tmp_path / "model.onnx").read_bytes()
    dribble, stream = Dribble(), io.BytesIO(b"....")
    save(model, dribble)  # type: ignore[arg-type]
    stream.seek(4)
    saved = save(model, stream)
    assert saved.paths == () and saved.bytes == len(expected)
    assert dribble.taken == stream.getvalue()[4:] == expected
    with gzip.open(tmp_path / "model.gz", "wb", compresslevel=1) as file:
        save(model, file)  # type: ignore[arg-type]
    assert gzip.decompress((tmp_path / "model.gz").read_bytes()) == expected
    with open(tmp_path / "file", "wb", buffering=0) as unbuffered:
        save(model, unbuffered)
    assert (tmp_path / "file").read_bytes() == expected


def test_file_objects_that_do_not_do(tmp_path: Path) -> None:
    model = model_of(a=torch.randn(5))
    with open(tmp_path / "text", "w", encoding="utf-8") as text, pytest.raises(OptionError, match="mode 'wb'"):
        save(model, text)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not to a int"):
        save(model, 3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="needs a path"):
        save(model, io.BytesIO(), EXTERNAL)
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(SerializeError, match="/dev/full: No space left"):
        save(model, full)


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    model = model_of(a=torch.randn(5))
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for target, reason in {
        tmp_path: "it is a folder",
        tmp_path / "none" / "model.onnx": "none does not exist. Create it",
        tmp_path / "file" / "model.onnx": "file is not a folder",
        tmp_path / "pipe": "not a regular file",
        "/dev/null": "not a regular file",
        f"{tmp_path}/new/": "it is a folder",
    }.items():
        with pytest.raises(SerializeError, match=reason):
            save(model, target)
    with pytest.raises(SerializeError, match=r"cannot write .*File name too long"):
        save(model, tmp_path / ("x" * 300))
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


@pytest.mark.parametrize(("denied", "reason"), [("model.onnx", "read-only"), ("", "no permission to create files")])
def test_no_permission(denied: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_text("old")
    # As root every file can be written, so that what `access` says for others is put in its place.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / denied)
    with pytest.raises(SerializeError, match=f"{reason}.* unharmed"):
        save(model_of(a=torch.randn(5)), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "old"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link.onnx").symlink_to(tmp_path / "store" / "real.onnx")
    model = model_of(a=torch.randn(500))
    for _ in range(2):  # it leads nowhere at first
        save(model, tmp_path / "link.onnx")
        assert (tmp_path / "link.onnx").is_symlink()
        assert not (tmp_path / "store" / "real.onnx").is_symlink()
        onnx.checker.check_model(tmp_path / "link.onnx")
    with pytest.raises(SerializeError, match="link into another folder"):
        save(model, tmp_path / "link.onnx", EXTERNAL)
    (tmp_path / "near.onnx").symlink_to("target.onnx")
    saved = save(model, tmp_path / "near.onnx", EXTERNAL)
    assert saved.paths == (tmp_path / "near.onnx", tmp_path / "target.onnx.data")


def test_permissions_are_what_open_would_give(tmp_path: Path) -> None:
    model = model_of(a=torch.randn(500))
    (tmp_path / "reference").write_text("")
    save(model, tmp_path / "new.onnx", EXTERNAL)
    for name in ("new.onnx", "new.onnx.data"):
        assert (tmp_path / name).stat().st_mode == (tmp_path / "reference").stat().st_mode
        (tmp_path / name).chmod(0o640)
    save(model, tmp_path / "new.onnx", EXTERNAL)
    for name in ("new.onnx", "new.onnx.data"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert save(model_of(a=torch.randn(500)), "m.onnx", EXTERNAL).paths == (Path("m.onnx"), Path("m.onnx.data"))
    onnx.checker.check_model("m.onnx")
