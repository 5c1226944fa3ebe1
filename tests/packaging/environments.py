"""Distributions as published, and fresh environments that pip installs them into.

Nothing here needs the network: the heavy requirements (torch, onnx and so on) come from the environment that runs the tests,
through a folder of links that leaves out every onnxexp distribution and every plugin.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
OURS = [ROOT, *sorted(file.parent for file in ROOT.glob("plugins/*/pyproject.toml"))]
"""The folder of every distribution that is released; the core is the first."""
PROJECTS = [*OURS, ROOT / "examples" / "plugin"]
"""The folder of every distribution that lives in the repository; the core is the first."""

_LEFTOVERS = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "bench-results", ".pytest_cache", ".ruff_cache")
_NOT_PASSED_ON = ("ONNXEXP_", "PIP_", "PYTHON", "VIRTUAL_ENV", "PYTEST_", "FORCE_COLOR")
"""Variables with these beginnings do not reach what runs in a fresh environment."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """A finished process."""

    status: int
    out: str
    err: str

    @property
    def reported(self) -> Any:
        """The JSON that it printed last: a whole `--json` output, or a script's last line."""
        try:
            return json.loads(self.out)
        except ValueError:
            return json.loads(self.out.splitlines()[-1])


def project(folder: Path) -> dict[str, Any]:
    """Read the pyproject.toml of a folder."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    return table


def name_of(folder: Path) -> str:
    return str(project(folder)["project"]["name"])


def execute(*command: str | Path, cwd: Path, status: int | None = 0, **variables: str) -> Ran:
    """Run a command without the caller's Python settings; check its exit status."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    settings = {"PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=kept | settings, capture_output=True, text=True, timeout=280, check=False,
        umask=0o022,
    )  # fmt: skip
    assert status in (done.returncode, None), f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Ran(done.returncode, done.stdout, done.stderr)


def copy_sources(source: Path, work: Path) -> Path:
    """Copy a project into a folder, as a clone has it; return the copy."""
    copy = work / name_of(source)

    def left_out(folder: str, names: list[str]) -> set[str]:
        hidden = {name for name in names if name.startswith(".")} if Path(folder) == ROOT else set()
        environments = {name for name in names if (Path(folder) / name / "pyvenv.cfg").exists()}
        return hidden | environments | _LEFTOVERS(folder, names)

    shutil.copytree(source, copy, ignore=left_out, symlinks=True)
    return copy


def link_requirements(folder: Path) -> None:
    """Link everything installed beside the tests, but for plugins and onnxexp itself."""
    folder.mkdir()
    sites = [Path(entry) for entry in dict.fromkeys(sys.path) if Path(entry).name in ("site-packages", "dist-packages")]
    left_out = {"onnxexp", "pip", *_installed_plugins(sites)}
    for site in sites:
        for entry in site.iterdir():
            known = entry.name in left_out or entry.name.startswith("__editable__") or entry.suffix == ".pth"
            if not known and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)


def _installed_plugins(sites: list[Path]) -> Iterator[str]:
    """Find the files in site-packages that belong to onnxexp or to plugins."""
    own = {name_of(folder) for folder in PROJECTS}
    for distribution in importlib.metadata.distributions(path=[str(site) for site in sites]):
        name = distribution.metadata["Name"]
        if name in own or any(point.group == "onnxexp.plugins" for point in distribution.entry_points):
            for file in distribution.files or ():
                yield file.parts[0]


@dataclasses.dataclass(frozen=True)
class Wheelhouse:
    """A folder of wheels and sdists, and the folder of links to the requirements."""

    folder: Path
    requirements: Path

    def one(self, folder: Path, ending: str) -> Path:
        """Find the wheel or sdist of a project."""
        beginning = name_of(folder).replace("-", "_")
        found = [file for file in self.folder.iterdir() if file.name.startswith(f"{beginning}-") and file.name.endswith(ending)]
        assert len(found) == 1, found
        return found[0]


class Environment:
    """A fresh virtual environment, without pip in it.

    Attributes:
        work: An empty folder, the working directory of what runs.
        site: Its site-packages.
    """

    def __init__(self, folder: Path, house: Wheelhouse, *, requirements: bool = True) -> None:
        self.house = house
        self.folder = folder / "environment"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        execute(sys.executable, "-m", "venv", "--without-pip", self.folder, cwd=folder)
        windows = os.name == "nt"
        self.scripts = self.folder / ("Scripts" if windows else "bin")
        (self.site,) = self.folder.glob("Lib/site-packages" if windows else "lib/python*/site-packages")
        if requirements:
            (self.site / "requirements_of_the_tests.pth").write_text(f"{house.requirements}\n")

    def pip(self, *arguments: str | Path, status: int | None = 0) -> Ran:
        """Run pip for this environment, offline; the tests' own pip does it."""
        options = ("--disable-pip-version-check", "--no-input", "--python", self.folder)
        return execute(sys.executable, "-m", "pip", *options, *arguments, cwd=self.work.parent, status=status)

    def install(self, *requirements: str | Path, status: int | None = 0) -> Ran:
        """Install wheels, or requirements from among the repository's wheels, by pip."""
        return self.pip("install", "--no-index", "--find-links", self.house.folder, *requirements, status=status)

    def uninstall(self, *names: str) -> None:
        self.pip("uninstall", "--yes", *names)

    def python(self, script: str, *, cwd: Path | None = None, status: int | None = 0, **variables: str) -> Ran:
        """Run a script that lies in the working directory, as a user's does."""
        folder = cwd or self.work
        file = folder / "script.py"
        file.write_text(textwrap.dedent(script))
        return execute(self.scripts / "python", file, cwd=folder, status=status, **variables)

    def command(self, *arguments: str, cwd: Path | None = None, status: int | None = 0, **variables: str) -> Ran:
        """Run `python -m onnxexp`."""
        return execute(
            self.scripts / "python", "-m", "onnxexp", *arguments, cwd=cwd or self.work, status=status, **variables
        )  # fmt: skip

    def plugins(
        self, *arguments: str, cwd: Path | None = None, status: int | None = 0, **variables: str
    ) -> dict[str, dict[str, Any]]:
        """Run `onnxexp plugins`, and return its list by name."""
        listed = self.command("plugins", "--json", *arguments, cwd=cwd, status=status, **variables).reported
        return {each["name"]: each for each in listed}

    def states(self, *arguments: str, cwd: Path | None = None, status: int | None = 0, **variables: str) -> dict[str, str]:
        listed = self.plugins(*arguments, cwd=cwd, status=status, **variables)
        return {name: each["state"] for name, each in listed.items()}

    def exe(self, name: str) -> Path:
        """Return the path of a script that pip has installed."""
        return self.scripts / (f"{name}.exe" if os.name == "nt" else name)
