"""Reading files that anyone may have written."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from onnxexp import OptionError
from onnxexp._request.checkpoint import read_checkpoint
from onnxexp._request.untrusted_files import open_regular, parse_toml, read_json, read_regular

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX's links, pipes and devices")


@posix
@pytest.mark.parametrize("name", ["pipe", "zero", ".", "none", "a\0b", "a\udcff\x1b[31m", "a" * 5000, "file/below"])
def test_what_is_no_regular_file(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "file").write_text("text")
    with pytest.raises(
        OptionError, match="(there is no file|is no regular file|cannot be read).*; to fix this, give the path of a"
    ) as raised:
        open_regular(tmp_path / name)
    assert str(raised.value).isprintable()


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OptionError, match="has more than 4 bytes; to fix this, "):
        read_regular(tmp_path / "file", 4)


@pytest.mark.parametrize("text", [b"[" * 100_000, b"1" * 5000, b"", b"\xff", b"{", b'{"a": 1}}'], ids=lambda text: str(text[:9]))
def test_json_that_is_none(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the answer is not valid JSON: .*; to fix this, "):
        read_json(text, "the answer")
    (tmp_path / "file.json").write_bytes(text)
    with pytest.raises(OptionError, match=r"file.json is not valid JSON: .*; to fix this, "):
        read_json(tmp_path / "file.json")


def test_keys_of_many_parts_are_read() -> None:
    assert parse_toml(b"a.b.c = 1\n[x . y]\nz = 'a.b.c'", "the text") == {"a": {"b": {"c": 1}}, "x": {"y": {"z": "a.b.c"}}}
    for key in ("a." * 300 + "a = 1", "[" + "a . " * 300 + "a]", "x = {" + '"a".' * 300 + "a = 1}"):
        with pytest.raises(OptionError, match="more than 200 parts; to fix this"):
            parse_toml(key.encode(), "the text")


WEIGHT = {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}


def safetensors(header: object, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(24)


CHECKPOINTS: dict[str, bytes] = {
    "a header of 2**63 bytes": safetensors({"w": WEIGHT}, 1 << 63),
    "a header beyond the file": safetensors({"w": WEIGHT}, 1000),
    "overlapping": safetensors({"w": WEIGHT, "v": WEIGHT}),
    "nested": safetensors(b'{"w":' + b"[" * 100_000),
    "negative": safetensors({"w": {**WEIGHT, "shape": [-6]}}),
    "huge": safetensors({"w": {**WEIGHT, "shape": [1 << 62, 1 << 62]}}),
    "another size": safetensors({"w": {**WEIGHT, "shape": [7]}}),
    "no type": safetensors({"w": {**WEIGHT, "dtype": "F99"}}),
    "backwards": safetensors({"w": {**WEIGHT, "data_offsets": [24, 0]}}),
    "a lone surrogate": safetensors(json.dumps({"\ud800": WEIGHT}).encode()),
    "empty": b"",
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints_that_are_damaged(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(CHECKPOINTS[kind])
    with pytest.raises(OptionError, match="is no complete safetensors file: .*; to fix this, "):
        read_checkpoint(tmp_path)


@posix
@pytest.mark.parametrize("shard", ["../other.safetensors", "/etc/hostname", "a/b", "..", "", "a\0b", "pipe", "\ud800"])
def test_an_index_of_other_files(shard: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "pipe")
    (tmp_path / "other.safetensors").write_bytes(safetensors({"w": WEIGHT}))
    (tmp_path / "folder" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    with pytest.raises(OptionError, match="to fix this, "):
        read_checkpoint(tmp_path / "folder")


@posix
def test_a_checkpoint_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "weights.safetensors")
    with pytest.raises(OptionError, match="is no regular file"):
        read_checkpoint(tmp_path / "weights.safetensors")
