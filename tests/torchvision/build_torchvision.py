"""Build torchvision's Python part and C++ operators from Debian's source package.

    python -m tests.torchvision.build_torchvision FOLDER

There is no wheel of torchvision without CUDA for this torch. The folder then has a package `torchvision`; put it on `sys.path`.
The build needs Debian's apt and a C++ compiler, and takes about two minutes on two cores.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils import cpp_extension

from tests.debian_source import unpacked_source

_NEWEST = 21
"""The last minor version of torchvision whose sources build with this torch."""


def main(folder: Path) -> None:
    if (folder / "torchvision" / "_C.so").exists():
        return
    with tempfile.TemporaryDirectory() as work:
        source = unpacked_source("pytorch-vision", lambda major, minor: major == 0 and minor <= _NEWEST, Path(work))
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
