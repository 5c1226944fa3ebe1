"""`OutputFile` writes pages, tables and logs as safely as models are written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxexp._errors import SerializeError
from onnxexp._serialize.atomic_file import OutputFile


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.usefixtures("umask")
def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    OutputFile(path).write("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    OutputFile(path).write("newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text() == "newer"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store" / "file")
    for text in ("new", "newer"):
        OutputFile(tmp_path / "link").write(text)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "store" / "file").read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["link", "store"]


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    OutputFile(tmp_path / "file").write("ü \udcff \ud800")
    assert (tmp_path / "file").read_bytes() == "ü ".encode() + rb"\udcff \ud800"


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    OutputFile(tmp_path / "file").write(memoryview(b"\x00\r\n\xff"), lasting=True)
    assert (tmp_path / "file").read_bytes() == b"\x00\r\n\xff"


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_what_replaces_a_file_or_shall_last_is_on_the_disk(
    old: bool, lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    if old:
        (tmp_path / "file").write_text("old")
    OutputFile(tmp_path / "file").write("new", lasting=lasting)
    assert bool(flushed) == (old or lasting)


def test_an_error_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "file").write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(SerializeError, match=r"cannot write .*file: Input/output error. .*unharmed"):
            OutputFile(tmp_path / "file").write("new")
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)  # root may list every folder
    OutputFile(tmp_path / "file").write("new")
    assert (tmp_path / "file").read_text() == "new"
