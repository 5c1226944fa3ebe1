"""Build torchvision's Python part and C++ operators from the source package of Debian.

    python -m tests.torchvision.build_torchvision FOLDER

There is no wheel of torchvision without CUDA for this torch. The folder then has a package `torchvision`; put it on `sys.path`.
Needs Debian's apt and a C++ compiler; takes about two minutes on two cores.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import torch
from torch.utils import cpp_extension

_NEWEST = 21
"""The last minor version of torchvision whose sources build with this torch."""


def main(folder: Path) -> None:
    if (folder / "torchvision" / "_C.so").exists():
        return
    with tempfile.TemporaryDirectory() as work:
        source = _downloaded(Path(work))
        ops = _objects(source / "torchvision" / "csrc", Path(work))
        _link(ops, source / "torchvision" / "_C.so")
        shutil.rmtree(source / "torchvision" / "csrc")
        version = re.search(r"[\d.]+", (source / "version.txt").read_text())
        assert version is not None
        (source / "torchvision" / "version.py").write_text(f"__version__ = {version[0]!r}\ngit_version = ''\ncuda = None\n")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(source / "torchvision", folder / "torchvision")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, "pillow"],
        check=True,
    )


def _downloaded(work: Path) -> Path:
    """The unpacked source package."""
    if shutil.which("apt-get") is None:
        sys.exit("torchvision is built from Debian's source package, and there is no apt-get: this needs Debian or Ubuntu")
    lists = _source_lists(work)
    # a folder of its own for apt's lists, so that the machine's configuration stays as it is
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    apt = [f"-oDir::Etc::SourceList={lists}", "-oDir::Etc::SourceParts=-", f"-oDir::State::Lists={work / 'lists'}"]
    apt += [f"-oDir::Cache={work / 'cache'}", "-oAPT::Sandbox::User=root"]
    subprocess.run(["apt-get", *apt, "-qq", "update"], check=True)
    shown = subprocess.run(["apt-cache", *apt, "madison", "pytorch-vision"], check=True, capture_output=True, text=True).stdout
    versions = sorted(set(re.findall(r"\b0\.(\d+)\.\d+\S*", shown)), key=int, reverse=True)
    for minor in [each for each in versions if int(each) <= _NEWEST]:
        full = re.search(rf"\b0\.{minor}\.\d+\S*", shown)
        assert full is not None
        # the archive of Debian's own changes is not needed, and may be gone from the mirror
        subprocess.run(["apt-get", *apt, "-qq", "source", "--download-only", f"pytorch-vision={full[0]}"], cwd=work, check=False)
        for archive in work.glob(f"pytorch-vision_0.{minor}.*.orig.tar.*"):
            target = work / "source"
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")
            return next(target.iterdir())
    sys.exit(f"Debian has no source package pytorch-vision up to 0.{_NEWEST} that can be downloaded:\n{shown}")


def _source_lists(work: Path) -> Path:
    """A list of source packages: this machine's mirror, for Debian's stable releases."""
    configured = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    text = "\n".join(each.read_text(errors="replace") for each in configured if each.is_file())
    mirror = re.search(r"https?://\S+/debian/?(?=\s)", text)
    if mirror is None:
        sys.exit("there is no mirror of Debian in /etc/apt to take the source package from")
    path = work / "sources.list"
    path.write_text("".join(f"deb-src {mirror[0]} {suite} main\n" for suite in ("trixie", "bookworm")))
    return path


def _objects(csrc: Path, work: Path) -> list[Path]:
    """Compile the operators for the CPU."""
    files = [*csrc.glob("ops/*.cpp"), *csrc.glob("ops/cpu/*.cpp"), *csrc.glob("ops/autograd/*.cpp"), csrc / "vision.cpp"]
    flags = ["-c", "-fPIC", "-O2", "-std=c++20", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    includes = [f"-I{path}" for path in (csrc, *cpp_extension.include_paths())]

    def compiled(file: Path) -> Path:
        target = work / f"{'_'.join(file.relative_to(csrc).parts)}.o"
        subprocess.run(["c++", *flags, *includes, str(file), "-o", str(target)], check=True)
        return target

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, files))


def _link(objects: list[Path], target: Path) -> None:
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    subprocess.run(["c++", "-shared", *map(str, objects), "-o", str(target), *libraries, "-lc10", "-ltorch_cpu"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
