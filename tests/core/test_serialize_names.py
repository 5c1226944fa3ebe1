"""Unwritable names and file objects: an error with its fix, and no file."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp._errors import OptionError, SerializeError
from onnxexp._serialize import WriteOptions, save, to_proto
from onnxexp._serialize.atomic_file import OutputFile
from tests.core.tensor_models import EXTERNAL, model_of, values
from tests.core.tiny import TINY

BOTH = pytest.mark.parametrize("options", [WriteOptions(), EXTERNAL], ids=["one", "two"])


@pytest.fixture
def model() -> Any:
    return model_of(a=torch.ones(500))


@BOTH
@pytest.mark.parametrize(
    ("name", "reason"), [("a\0b.onnx", "cannot have a NUL character"), ("a\ud800.onnx", "the name has no encoding here")]
)
def test_names_that_no_file_can_have(name: str, reason: str, options: WriteOptions, model: Any, tmp_path: Path) -> None:
    with pytest.raises(SerializeError, match=rf"cannot write .*a\\.*: .*{reason}. Choose another name"):
        save(model, tmp_path / name, options)
    with pytest.raises(SerializeError, match=reason):
        OutputFile(tmp_path / name).write("text")
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the names of files are Unicode")
def test_a_name_that_is_no_unicode_does_for_one_file(model: Any, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.onnx"))
    save(model, path)
    assert os.listdir(os.fsencode(tmp_path)) == [b"m\xff.onnx"]
    with pytest.raises(SerializeError, match=r"m\\udcff.onnx.data': a model refers to its data .*external_data=False"):
        save(model, path, EXTERNAL)
    assert os.listdir(os.fsencode(tmp_path)) == [b"m\xff.onnx"]


@pytest.mark.parametrize("place", ["initializer", "node", "graph", "metadata"])
def test_texts_of_a_model_that_are_no_unicode(place: str, model: Any, tmp_path: Path) -> None:
    if place == "initializer":
        model = model_of(**{"a\udcff": torch.ones(500)})
    elif place == "node":
        model.graph[0].name = "a\udcff"
    elif place == "graph":
        model.graph.doc_string = "a\udcff"
    else:
        model.metadata_props["key"] = "a\udcff"
    for options in (WriteOptions(), EXTERNAL):
        with pytest.raises(SerializeError, match=r"its text 'a\\udcff' is no valid Unicode. If it is a name, choose another"):
            save(model, tmp_path / "model.onnx", options)
    with pytest.raises(SerializeError, match="no valid Unicode"):
        to_proto(model)
    assert not os.listdir(tmp_path)


def test_file_objects_that_are_closed_or_read(model: Any, tmp_path: Path) -> None:
    closed = [io.BytesIO(), open(tmp_path / "plain", "wb"), gzip.open(tmp_path / "packed", "wb")]  # noqa: SIM115 - closed below
    for file in closed:
        file.close()
        with pytest.raises(OptionError, match="this file object is closed: open it again, or give a path"):
            save(model, file)  # type: ignore[arg-type]
    with (
        open(tmp_path / "plain", "rb") as read,
        pytest.raises(OptionError, match="opened for reading; to fix this, open it in mode 'wb'"),
    ):
        save(model, read)  # type: ignore[arg-type]


@BOTH
def test_a_working_directory_that_was_removed(
    options: WriteOptions, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for name in ("model.onnx", "../model.onnx"):
        with pytest.raises(
            SerializeError, match="the working directory was removed. Give an absolute path, or change to a folder"
        ):
            save(model, name, options)
    save(model, tmp_path / "model.onnx", options)
    assert values(tmp_path / "model.onnx")["a"].sum() == 500


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="the system has no folder of open files")
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/thread-self/fd/{}", "link"])
def test_an_open_file_is_not_replaced(name: str, model: Any, tmp_path: Path) -> None:
    """`-o /dev/stdout >> log` replaced log."""
    with open(tmp_path / "log", "a") as log:
        (tmp_path / "link").symlink_to(f"/dev/fd/{log.fileno()}")
        path = tmp_path / name.format(log.fileno())
        if not os.path.exists(path):
            pytest.skip("this system has another name for it")
        log.write("a line\n")
        for options in (WriteOptions(), EXTERNAL):
            with pytest.raises(SerializeError, match="it is an open file, which cannot be replaced. Give the file's own name"):
                save(model, path, options)
        with pytest.raises(SerializeError, match="it is an open file"):
            OutputFile(path).write("text")
    assert (tmp_path / "log").read_text() == "a line\n"
    assert sorted(os.listdir(tmp_path)) == ["link", "log"]


@pytest.mark.parametrize("names", [{"input_names": ["a\udcff"]}, {"output_names": ["a\udcff"]}], ids=str)
def test_names_in_an_export(names: dict[str, list[str]]) -> None:
    with pytest.raises(SerializeError, match="no valid Unicode"):
        onnxexp.export(torch.nn.ReLU(), (torch.ones(2, 3),), io.BytesIO(), plugins=[TINY], **names)  # type: ignore[arg-type]
