"""Make the environment of a row with pip, as `make setup` does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.environments import OURS, ROOT, name_of, project

from .environments import Row


class InstallationError(Exception):
    """An environment that cannot be made: no interpreter, or pip fails."""


class Installed:
    """The environment of a row in a work folder, with the sources of the last commit.

    Attributes:
        sources: A clone of the repository.
        python: The interpreter of the environment.
        commit: The abbreviated hash of the commit.
    """

    def __init__(self, row: Row, work: Path) -> None:
        self.folder = work / row.name
        self.sources, self.python = self.folder / "sources", self.folder / "venv" / "bin" / "python"
        self._complete = self.folder / "complete"
        self.commit = _run(["git", "rev-parse", "--short=10", "HEAD"], ROOT).strip()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables for what runs there."""
        left_out = ("ONNXEXP_", "PYTHON", "VIRTUAL_ENV", "PYTEST_", "MAKE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return kept | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(temporary)}

    @property
    def is_complete(self) -> bool:
        """Whether an earlier run has made the environment."""
        return self._complete.exists()

    def make(self, row: Row) -> None:
        """Update the sources, and make the environment unless an earlier run has.

        Raises:
            InstallationError: There is no such Python, or git or pip fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.is_complete:  # what the installation built among the sources stays
            _run(["git", "fetch", "--quiet", str(ROOT), "HEAD"], self.sources)
            _run(["git", "reset", "--quiet", "--hard", "FETCH_HEAD"], self.sources)
            _run(["git", "clean", "--quiet", "--force", "-d"], self.sources)
            return
        for old in (self.sources, self.folder / "venv"):
            shutil.rmtree(old, ignore_errors=True)
        _run(["git", "clone", "--quiet", str(ROOT), str(self.sources)], self.folder)
        _run([interpreter(row.python), "-m", "venv", str(self.folder / "venv")], self.folder)
        self._pip(
            *[pin for pin in row.pins or ("torch",) if pin.startswith("torch")]
        )  # decides between builds, as in the Makefile
        projects = [folder.relative_to(ROOT) for folder in OURS if name_of(folder) not in row.without]
        editable = [word for folder in projects for word in ("--editable", str(self.sources / folder))]
        self._pip(*row.pins, *editable, *requirements("dev", row.without))
        self._complete.touch()

    def _pip(self, *words: str) -> None:
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-cache-dir"]
        _run([*pip, *words], self.folder, self.variables)


def interpreter(version: str) -> str:
    """Find a Python of a minor version, from PATH or among pyenv's.

    Raises:
        InstallationError: Neither PATH nor pyenv has such a Python.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    for candidate in filter(None, (sys.executable, *found)):
        done = subprocess.run([candidate, "-c", _MINOR], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:  # pyenv's shim of a version that is not selected fails
            return candidate
    raise InstallationError(f"there is no python{version}; install it, or put it on PATH")


_MINOR = "import sys; print(*sys.version_info[:2], sep='.')"


def requirements(extra: str, without: Mapping[str, str]) -> list[str]:
    """List an extra's requirements, without our distributions and those of `without`."""
    extras = project(ROOT)["project"]["optional-dependencies"]

    def expand(name: str) -> Iterator[Requirement]:
        for each in map(Requirement, extras[name]):
            if each.name == "onnxexp":
                for inner in each.extras:
                    yield from expand(inner)
            else:
                yield each

    return sorted({str(each) for each in expand(extra) if canonicalize_name(each.name) not in without})


def remove(row: Row, work: Path) -> None:
    """Remove the environment of a row."""
    shutil.rmtree(work / row.name, ignore_errors=True)


def _run(command: list[str], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise InstallationError(f"{' '.join(command[:6])} ended with {done.returncode}: {last[0]}")
    return done.stdout
