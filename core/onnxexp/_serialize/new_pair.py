"""Replace a model and its data file, so that no reader mixes two models.

Moving one file over another is one step. Moving two is not, so the order matters:

- Where there is no model yet, the data is moved first, then the model.
- A model is replaced in three steps. (1) A second link to the new data gets a name of its own,
  ``model.onnx.data.onnxexp-<random>``, and a model that refers to that name replaces the old one: from here on the new model
  counts. (2) The new data replaces the old data. (3) The model that refers to ``model.onnx.data`` replaces the interim one, and
  the extra name is removed.

A process that is killed between these steps leaves a right pair and perhaps an extra file, which the next save to the same path
removes. Saving ends after step 1 on a file system without hard links, and where another writer does not release the folder:
also a right pair, whose data file has the longer name.

The lock is the name of a hidden folder. A writer renames a folder of its own to that name, which fails while another one has it,
on every file system and between machines. The folder of a dead writer is removed, see `hidden_folder`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from onnxexp._serialize.atomic_file import NewFile
from onnxexp._serialize.hidden_folder import hidden_folder, remove_if_dead
from onnxexp._user_warnings import warn

_OWN = ".data.onnxexp-"


class NewPair:
    """A model and its data that are being written, in one hidden folder.

    Attributes:
        model: The model file, which refers to `data` by its final name.
        data: The data file.
        own_name: The name of its own that the data may get.
    """

    def __init__(self, path: str, data_path: str, hidden: str) -> None:
        self._hidden = hidden
        self.model = NewFile(path, os.path.join(hidden, "model"))
        self.data = NewFile(data_path, os.path.join(hidden, "data"), lasting=self.model.replaces)
        self._interim: NewFile | None = None
        self.own_name = os.path.basename(path) + _OWN + _identity(hidden)

    def publish(self, write_interim: Callable[[NewFile], None]) -> str:
        """Move both files to their destinations, and return the name of the data file.

        Args:
            write_interim: Writes the model that refers to the data by `own_name`.
        """
        folder = os.path.dirname(self.model.path)
        for file in (self.data, self.model):
            file.complete()
        if self.model.replaces:
            self._write_interim(write_interim)
        with publication_lock(folder) as locked, superseded_data(self.model.path):
            if locked and not os.path.lexists(self.model.path):
                self.data.publish()
                self.model.publish()
                return os.path.basename(self.data.path)
            if not locked:
                warn(
                    f"another process began to replace a model in {folder}, and does not finish; so the weights of "
                    f"{self.model.path} are in {self.own_name}. To fix this, end that process, remove the folder "
                    f"{os.path.join(folder, LOCK)} if it stays, and save again"
                )
            return self._replace(self._interim or self._write_interim(write_interim), locked)

    def close(self) -> None:
        """Close the files."""
        for file in (self.model, self.data, self._interim):
            if file is not None:
                file.file.close()

    def _write_interim(self, write: Callable[[NewFile], None]) -> NewFile:
        self._interim = NewFile(self.model.path, os.path.join(self._hidden, "interim"))
        write(self._interim)
        self._interim.complete()
        return self._interim

    def _replace(self, interim: NewFile, locked: bool) -> str:
        """Take the module's three steps, or only the first one."""
        own = os.path.join(os.path.dirname(self.model.path), self.own_name)
        try:
            linked = locked and _linked(self.data.temporary, own)
            if not linked:
                self.data.publish(own)
            interim.publish()
            if linked:
                with contextlib.suppress(OSError):  # the interim model is right, and stays
                    self.data.publish()
                    self.model.publish()
                    return os.path.basename(self.data.path)
            return self.own_name
        finally:
            # A model refers to the extra name from the move of the interim one to the move of the last one. Which of them are
            # done can be seen even if an exception ends this at any place.
            if os.path.lexists(interim.temporary) or not os.path.lexists(self.model.temporary):
                with contextlib.suppress(OSError):
                    os.unlink(own)


@contextlib.contextmanager
def new_pair(path: str, data_path: str) -> Iterator[NewPair]:
    """Open new files for a model and its data.

    Both files disappear without `NewPair.publish`.
    """
    with hidden_folder(os.path.dirname(path)) as hidden:
        pair = NewPair(path, data_path, hidden)
        with contextlib.closing(pair):
            yield pair


@contextlib.contextmanager
def superseded_data(path: str) -> Iterator[None]:
    """Remove the data files with names of their own that the `with` makes useless.

    The block moves another model to `path`. Data of live writers stays: the model that refers to it may follow at any time.
    """
    folder, name = os.path.split(path)
    pattern = re.compile(re.escape(name + _OWN) + r"(\w{8})")
    # The order matters: what is here, and whose writer is not alive after that, is used by no later model than the present one.
    found = [(each, match[1]) for each in _listed(folder) if (match := pattern.fullmatch(each))]
    superseded = [each for each, writer in found if not os.path.lexists(os.path.join(folder, f".onnxexp-{writer}.tmp"))]
    yield
    for each in superseded:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, each))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except PermissionError:  # a folder that may be written, but not listed
        return []


def _identity(hidden: str) -> str:
    """Return the random part of a hidden folder's name."""
    return os.path.basename(hidden).removeprefix(".onnxexp-").removesuffix(".tmp")


def _linked(file: str, name: str) -> bool:
    try:
        os.link(file, name)
    except OSError:
        return False
    return True


LOCK = ".onnxexp-exchange.tmp"
"""A name of a hidden folder, so that those who look for dead ones find it."""
_PATIENCE = 10.0
"""Seconds to wait. A writer has the lock for a few renames."""
_INTERVAL = 0.002


@contextlib.contextmanager
def publication_lock(parent: str) -> Iterator[bool]:
    """Lock a folder, or yield False where another writer does not release it in time.

    Windows cannot rename a folder with an open file in it. There the lock is not taken, and True is yielded.
    """
    if sys.platform == "win32":
        yield True
        return
    with hidden_folder(parent) as folder:
        Path(folder, "content").touch()  # a folder that is empty could be replaced
        lock = os.path.join(parent, LOCK)
        taken = _renamed(folder, lock)
        try:
            yield taken
        finally:
            if taken:
                os.rename(lock, folder)


def _renamed(folder: str, lock: str) -> bool:
    """Rename the folder as soon as the name is free, or return False after a timeout."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            os.rename(folder, lock)
            return True
        except OSError:
            if time.monotonic() > end:
                return False
        remove_if_dead(lock)
        time.sleep(_INTERVAL)
