"""A folder is replaced as a whole or not at all, and the user's files in it stay."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onnxexp._errors import OptionError, SerializeError
from onnxexp._serialize import atomic_folder
from onnxexp._serialize.atomic_folder import OutputFolder
from onnxexp._serialize.file_list import MANIFEST
from tests.faults.folder_kills import HOWS, state, write, write_user_files
from tests.faults.interrupted import KILL, interrupted

USERS = {"notes.txt", "data"}
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX's links, modes and processes")


@pytest.fixture(params=["exchange", "two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select each of the two ways to replace a folder."""
    if request.param == "two steps":
        monkeypatch.setattr(atomic_folder, "exchange", lambda first, second: False)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide an export, with files of the user beside it."""
    write(tmp_path / "out", "old")
    write_user_files(tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.usefixtures("way")
def test_the_users_files_stay(folder: Path) -> None:
    (folder / "data" / "deep").mkdir()
    (folder / "data" / "deep" / "more.bin").write_bytes(b"more")
    (folder / "data" / "link").symlink_to("/nowhere")
    (folder / "empty").mkdir()
    write(folder, "new")
    assert state(folder) == "new" and os.listdir(folder.parent) == ["out"]
    assert (folder / "data" / "deep" / "more.bin").read_bytes() == b"more"
    assert os.readlink(folder / "data" / "link") == "/nowhere" and (folder / "empty").is_dir()


@pytest.mark.usefixtures("way")
def test_files_of_the_earlier_export_go(folder: Path) -> None:
    with OutputFolder(folder).replaced({}) as place:
        Path(place, "other.onnx").write_text("other")
    assert {*os.listdir(folder)} == {"other.onnx", MANIFEST, *USERS}


def test_a_new_folder_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        write(tmp_path / name, "new")
        assert (tmp_path / name / "model.onnx").read_text() == "new"
    assert {*os.listdir(tmp_path)} == {"new", "empty"}


def test_the_list_has_sizes_and_checksums(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    assert manifest["tag"] == "old"
    assert manifest["files"] == {name: {"size": 3, "crc32": zlib.crc32(b"old")} for name in ("README.md", "model.onnx")}


@pytest.mark.parametrize("edit", [lambda text: text + " edited", lambda text: text.upper()], ids=["longer", "of the same size"])
def test_a_file_that_was_changed_is_the_users(folder: Path, edit: Callable[[str], str]) -> None:
    changed = edit((folder / "README.md").read_text())
    (folder / "README.md").write_text(changed)
    with pytest.raises(
        OptionError, match=r"yours, or were changed since the last export: README.md; to fix this, move or delete them"
    ):
        OutputFolder(folder).check(["README.md", "model.onnx"])
    with pytest.raises(OptionError, match="README.md"):
        write(folder, "new")
    assert (folder / "model.onnx").read_text() == "old" and os.listdir(folder.parent) == ["out"]
    with OutputFolder(folder).replaced({}) as place:  # an export without such a file keeps it
        Path(place, "other.onnx").write_text("other")
    assert (folder / "README.md").read_text() == changed
    (folder / "README.md").rename(folder / "mine.md")  # the fix
    write(folder, "new")
    assert (folder / "mine.md").read_text() == changed and (folder / "README.md").read_text() == "new"


def manifests() -> Iterator[tuple[str, bytes]]:
    yield "of an older onnxexp", b'{"task": "fill-mask", "graphs": ["model.onnx"]}'
    yield "nested", b"[" * 100_000
    yield "no JSON", b"\xff\xfe"
    yield "a list", b"[1, 2]"
    yield "files are a number", b'{"files": 5}'
    yield "digits", b'{"files": {"model.onnx": {"size": ' + b"9" * 5000 + b"}}}"


@pytest.mark.parametrize("manifest", [pytest.param(content, id=name) for name, content in manifests()])
def test_a_manifest_without_a_list(folder: Path, manifest: bytes) -> None:
    (folder / MANIFEST).write_bytes(manifest)
    with pytest.raises(OptionError, match=r"without a list.*move or delete the folder, or give a new one"):
        OutputFolder(folder).check(["model.onnx"])
    with pytest.raises(OptionError):
        write(folder, "new")
    assert (folder / "model.onnx").read_text() == "old"


@posix
def test_a_manifest_that_never_ends(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    with pytest.raises(OptionError, match="is no earlier export"):
        OutputFolder(folder).check()
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(OptionError, match="is no earlier export"):
        OutputFolder(folder).check()


def test_names_in_a_manifest_lead_nowhere(folder: Path) -> None:
    """Nothing outside of the folder is touched, whatever the list names."""
    outside = folder.parent / "outside"
    outside.write_text("mine")
    listed = json.loads((folder / MANIFEST).read_text())
    listed["files"] |= {"../outside": {"size": 4, "crc32": 0}, "notes.txt": 5, "data": {"size": 4096}, "model.onnx": None}
    (folder / MANIFEST).write_text(json.dumps(listed))
    (folder / "model.onnx").unlink()
    write(folder, "new")
    assert outside.read_text() == "mine" and state(folder) == "new"


def test_bad_destinations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("")
    write(tmp_path / "here", "old")
    monkeypatch.chdir(tmp_path / "here")
    for path, message in [
        (tmp_path / "file", "is a file: give a folder"),
        (tmp_path / "no" / "out", "does not exist: create it"),
        (tmp_path / "other", "has files of its own, and is no earlier export"),
        (".", "is the working directory, or contains it"),
        ("/", "is the root of a file system"),
        ("a\0b", "has a NUL character"),
    ]:
        for act in (lambda path: OutputFolder(path).check(), lambda path: write(path, "new")):
            with pytest.raises(OptionError, match=message):
                act(path)
    assert {*os.listdir(tmp_path)} == {"file", "other", "here"}


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder: Path) -> None:
    folder.chmod(0o555)
    with pytest.raises(SerializeError, match="no permission to write in"):
        OutputFolder(folder).check()
    folder.chmod(0o755)


@posix
def test_permissions_and_links_are_kept(folder: Path) -> None:
    folder.chmod(0o700)
    (folder / "model.onnx").chmod(0o600)
    (folder.parent / "link").symlink_to("out")
    write(folder.parent / "link", "new")
    assert state(folder) == "new" and (folder.parent / "link").is_symlink()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "model.onnx").stat().st_mode) == 0o600


@posix
def test_what_is_not_a_file_stays(folder: Path) -> None:
    os.mkfifo(folder / "data" / "pipe")
    write(folder, "new")
    assert stat.S_ISFIFO((folder / "data" / "pipe").stat().st_mode) and state(folder) == "new"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(errno.EIO, "Input/output error")], ids=repr)
def test_an_error_while_the_folder_is_written(folder: Path, error: BaseException) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fail() -> None:
        with OutputFolder(folder).replaced({}) as place:
            Path(place, "model.onnx").write_text("new")
            raise error

    with pytest.raises(SerializeError if isinstance(error, OSError) else type(error)):
        fail()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert os.listdir(folder.parent) == ["out"]


def test_without_hard_links_files_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", forbidden)
    write(folder, "new")
    assert state(folder) == "new"


def test_a_mounted_file_system_is_not_copied_or_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", elsewhere)
    with pytest.raises(SerializeError, match=r"is on another file system, which is mounted there. Unmount it"):
        write(folder, "new")
    assert state(folder) == "old" and os.listdir(folder.parent) == ["out"]


@posix
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("how", HOWS)
def test_an_interrupt_at_any_change_leaves_the_old_or_the_new_folder(tmp_path: Path, how: str, way: str) -> None:
    step, found = 0, set()
    while True:
        place = tmp_path / str(step)
        place.mkdir()
        folder = place / "out"
        write(folder, "old")
        write_user_files(folder)
        again = interrupted(lambda folder=folder: write(folder, "new"), step, how)  # type: ignore[misc]
        if how != KILL or way == "exchange":
            assert state(folder) in ("old", "new"), f"at change {step}"
            found.add(state(folder))
        if how == KILL:  # the next export, of another folder, recovers and removes what is left
            write(place / "other", "new")
            assert {*os.listdir(place)} == {"out", "other"}, f"at change {step}"
        assert state(folder) in ("old", "new"), f"at change {step}"
        shutil.rmtree(place)
        if not again:
            break
        step += 1
    assert step > 15 and (found == {"old", "new"} or way == "two steps")


def _late(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a change just before the exchange."""
    exchange = atomic_folder.exchange

    def late(first: str, second: str) -> bool:
        change()
        return exchange(first, second)

    monkeypatch.setattr(atomic_folder, "exchange", late)


@pytest.mark.usefixtures("way")
def test_what_the_user_writes_at_the_last_moment_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        (folder / "late.txt").write_text("late")
        (folder / "data" / "later").mkdir()
        (folder / "data" / "later" / "file").write_text("later")
        (folder / "fresh").write_text("edited")
        os.utime(folder / "fresh", ns=(1 << 62, 1 << 62))
        os.replace(folder / "fresh", folder / "notes.txt")
        (folder / "README.md").write_text("edited, too")
        os.utime(folder / "README.md", ns=(1 << 62, 1 << 62))

    _late(change, monkeypatch)
    write(folder, "new")
    assert os.listdir(folder.parent) == ["out"]
    assert (folder / "late.txt").read_text() == "late" and (folder / "data" / "later" / "file").read_text() == "later"
    assert (folder / "notes.txt").read_text() == "edited" and (folder / "model.onnx").read_text() == "new"
    assert (folder / "README.md").read_text() == "new" and (folder / "README.md.yours").read_text() == "edited, too"


@pytest.mark.usefixtures("way")
def test_an_export_that_was_published_at_the_last_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        monkeypatch.undo()
        with OutputFolder(folder).replaced({}) as place:
            Path(place, "other.onnx").write_text("other")

    _late(change, monkeypatch)
    write(folder, "new")
    assert state(folder) == "new" and {*os.listdir(folder)} == {"model.onnx", "README.md", MANIFEST, *USERS}


@pytest.mark.usefixtures("way")
def test_threads_that_export_into_one_folder(folder: Path) -> None:
    tags = [f"{number} of 4" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tag: [write(folder, tag) for _ in range(10)], tags))
    assert state(folder) in tags and os.listdir(folder.parent) == ["out"]


@posix
def test_a_live_export_is_left_alone(folder: Path) -> None:
    with OutputFolder(folder).replaced({}) as place:
        Path(place, "model.onnx").write_text("outer")
        write(folder.parent / "other", "new")
        assert Path(place, "model.onnx").read_text() == "outer"
    assert {*os.listdir(folder.parent)} == {"out", "other"} and (folder / "model.onnx").read_text() == "outer"


@pytest.fixture
def mounted(folder: Path) -> Iterator[Path]:
    """Mount a file system inside the user's part of the folder."""
    disk = folder / "data"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting needs root")
    yield disk
    for place in (disk, *folder.parent.glob("*/*/*/data")):
        with contextlib.suppress(OSError):
            subprocess.run(["umount", place], check=False, capture_output=True)


@posix
def test_a_mount_point_inside(folder: Path, mounted: Path) -> None:
    (mounted / "precious").write_text("precious")
    with pytest.raises(SerializeError, match="is on another file system"):
        write(folder, "new")
    assert (mounted / "precious").read_text() == "precious" and (folder / "model.onnx").read_text() == "old"
