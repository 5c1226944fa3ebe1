"""Source packages of Debian, downloaded with this machine's mirror."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path


def unpacked_source(package: str, wanted: Callable[[int, int], bool], work: Path, under: str = "") -> Path:
    """Download the newest release of `package` and unpack it.

    Args:
        package: The name of the source package.
        wanted: Whether a release, of this major and minor version, will do.
        work: A folder for the download, which stays.
        under: Unpack this folder of the sources only.

    Returns:
        The root of the sources, in `work`.
    """
    if shutil.which("apt-get") is None:
        sys.exit(f"{package} comes from Debian's source package, and there is no apt-get: this needs Debian or Ubuntu")
    apt = _configuration(work)
    subprocess.run(["apt-get", *apt, "-qq", "update"], check=True)
    shown = subprocess.run(["apt-cache", *apt, "madison", package], check=True, capture_output=True, text=True).stdout
    versions = {(int(major), int(minor)): full for full, major, minor in re.findall(r"\| *((\d+)\.(\d+)\.\S+)", shown)}
    for release in sorted(filter(lambda each: wanted(*each), versions), reverse=True):
        # the archive of Debian's own changes is not needed, and may be gone from the mirror
        fetched = ["apt-get", *apt, "-qq", "source", "--download-only", f"{package}={versions[release]}"]
        subprocess.run(fetched, cwd=work, check=False)
        for archive in work.glob(f"{package}_{release[0]}.{release[1]}.*.orig.tar.*"):
            return _unpacked(archive, work / "source", under)
    sys.exit(f"Debian has no source package {package} of a release that is needed here and can be downloaded:\n{shown}")


def _configuration(work: Path) -> list[str]:
    """Return options that make apt use a folder of its own, not the machine's."""
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    options = {
        "Dir::Etc::SourceList": _source_lists(work),
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    return [f"-o{name}={value}" for name, value in options.items()]


def _source_lists(work: Path) -> Path:
    """Write a list of source packages, of this machine's mirror of Debian stable."""
    configured = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    text = "\n".join(each.read_text(errors="replace") for each in configured if each.is_file())
    mirror = re.search(r"https?://\S+/debian/?(?=\s)", text)
    if mirror is None:
        sys.exit("there is no mirror of Debian in /etc/apt to take the source package from")
    path = work / "sources.list"
    path.write_text("".join(f"deb-src {mirror[0]} {suite} main\n" for suite in ("trixie", "bookworm")))
    return path


def _unpacked(archive: Path, target: Path, under: str) -> Path:
    with tarfile.open(archive) as packed:
        # a stream: an archive of this size takes a minute to read, and its list would read it twice
        for member in packed:
            if member.name.partition("/")[2].startswith(under):
                packed.extract(member, target, filter="data")
    return next(target.iterdir())
