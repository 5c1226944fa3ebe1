"""Build a release reproducibly: one commit gives the same bytes each time.

python -m tests.packaging.release dist           wheels and sdists of the last commit
python -m tests.packaging.release --set 0.2.0    the version of every distribution
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from tests.packaging.environments import (
    OURS,
    ROOT,
    Environment,
    Wheelhouse,
    copy_sources,
    execute,
    link_requirements,
    name_of,
    project,
)  # fmt: skip

EPOCH = 1_500_000_000
"""The time of the files where no commit gives one, in seconds since 1970."""
_VERSION = re.compile(r'(?m)^(__version__|version) = "[^"]+"$')
_REQUIREMENT = re.compile(r'"(onnxexp[\w-]*(?:\[[\w,-]+\])?)>=[^"]+"')


def main() -> None:
    """Build into a folder or set the version, as the arguments require."""
    given = arguments(sys.argv[1:])
    if given.set is not None:
        set_version(ROOT, str(given.set))
    else:
        _release(given.folder.resolve())


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; exits where it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.release", description="Build a release.")
    parser.add_argument("folder", type=Path, nargs="?", help="gets the wheels and sdists; what it contains is replaced")
    parser.add_argument("--set", type=Version, metavar="VERSION", help="write a version into the sources of every distribution")
    given = parser.parse_args(words)
    if (given.folder is None) == (given.set is None):
        parser.error("give a folder or --set VERSION")
    return given


def set_version(root: Path, version: str) -> None:
    """Write a version into every distribution, and into the requirements among them.

    A plugin requires the same minor version of the others.
    """
    parsed = Version(version)
    required = f">={version},<{parsed.major}.{parsed.minor + 1}"
    for file in (root / "core/onnxexp/_version.py", root / "pyproject.toml", *sorted(root.glob("plugins/*/pyproject.toml"))):
        text = _VERSION.sub(rf'\1 = "{version}"', file.read_text("utf-8"))
        file.write_text(_REQUIREMENT.sub(rf'"\1{required}"', text), "utf-8")


def build(source: Path, work: Path, into: Path, epoch: int = EPOCH) -> None:
    """Build an sdist of a copy of the sources, then a wheel from that sdist."""
    copy = copy_sources(source, work)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    options = ("--no-isolation", "--outdir", into, copy)
    execute(sys.executable, "-m", "build", *options, cwd=work, SOURCE_DATE_EPOCH=str(epoch))
    (sdist,) = into.glob(f"{name_of(source).replace('-', '_')}-*.tar.gz")
    sdist.write_bytes(_without_circumstances(sdist, epoch))


def try_out(name: str, house: Wheelhouse, folder: Path) -> Environment:
    """Install a distribution from the folder of wheels alone, and load its plugins.

    Raises AssertionError where pip fails or a plugin does not load.
    """
    environment = Environment(folder, house)
    environment.install(name)
    states = environment.states("--load")
    assert set(states.values()) <= {"loaded", "off"}, (name, states)
    return environment


def pythons() -> dict[str, str]:
    """Find the interpreters on the path that the core supports, by version ("3.12")."""
    classifiers = project(ROOT)["project"]["classifiers"]
    versions = [version for each in classifiers if (version := each.removeprefix("Programming Language :: Python :: ")) != each]
    found = {version: shutil.which(f"python{version}") for version in versions if version[0].isdigit() and "." in version}
    # A pyenv shim exists for interpreters that it does not start.
    return {
        version: path for version, path in found.items()
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
    }  # fmt: skip


def install_bare(python: str, built: Path, folder: Path) -> None:
    """Install all wheels of a folder for another Python, and compile them.

    The wheels come without their requirements. Raises AssertionError where pip refuses one, or a file is no Python of that
    version.
    """
    execute(python, "-m", "venv", folder, cwd=built)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps")
    execute(*pip, "--no-compile", *sorted(built.glob("*.whl")), cwd=built)
    (site,) = folder.glob("lib/python*/site-packages")
    execute(folder / "bin" / "python", "-m", "compileall", "-q", *sorted(site.glob("onnxexp*/")), cwd=built)


def _without_circumstances(sdist: Path, epoch: int) -> bytes:
    """Repack an archive without times, users and order of the machine that made it."""
    packed = io.BytesIO()
    with (
        tarfile.open(sdist) as made,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in sorted(made.getmembers(), key=lambda each: each.name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.mode, plain.mtime = member.type, 0o755 if member.isdir() else 0o644, epoch
            plain.size, plain.linkname = member.size, member.linkname
            archive.addfile(plain, made.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def _release(folder: Path) -> None:
    """Build the last commit, check the files with twine, install each wheel."""
    if changed := _git("status", "--porcelain"):
        sys.exit(f"a release is made of a commit, and these files differ from it; commit or remove them:\n{changed}")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        built, sources = work / "built", work / "sources"
        _git("worktree", "add", "--detach", str(sources), "HEAD")
        try:
            for project in OURS:
                build(sources / project.relative_to(ROOT), work, built, int(_git("log", "-1", "--format=%ct")))
        finally:
            _git("worktree", "remove", "--force", str(sources))
        files = sorted(built.iterdir())
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
        link_requirements(work / "requirements")
        for project in OURS:
            try_out(name_of(project), Wheelhouse(built, work / "requirements"), work / "environments" / project.name)
        others = pythons()
        for version, python in others.items():
            install_bare(python, built, work / f"python{version}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(built, folder)
    for file in files:
        print(hashlib.sha256((folder / file.name).read_bytes()).hexdigest(), file.name)
    print(f"{len(files)} files in {os.path.relpath(folder)}, each checked by twine, each wheel installed from that folder")
    print(f"All wheels installed and compiled by Python {', '.join(others)}")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
