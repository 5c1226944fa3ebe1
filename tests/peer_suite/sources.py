"""The ONNX tests of PyTorch 2.6 and their imports, beside the environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.debian_source import unpacked_source
from tests.torchvision import build_torchvision

RELEASE = (2, 6)
"""The last release of PyTorch whose suite runs the TorchScript exporter's tests, and that Debian has."""

_FOLDER = Path(sys.prefix) / "peer-suite"


def prepare() -> None:
    """Download the tests, build torchvision, and put both on `sys.path`."""
    tests, packages, torchvision = _FOLDER / "onnx", _FOLDER / "packages", Path(sys.prefix) / "torchvision"
    build_torchvision.main(torchvision)
    if not tests.exists():
        with tempfile.TemporaryDirectory() as work:
            root = unpacked_source("pytorch", lambda major, minor: (major, minor) == RELEASE, Path(work), "test/onnx/")
            _FOLDER.mkdir(exist_ok=True)
            shutil.move(root / "test" / "onnx", tests)
    if not packages.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", packages, "parameterized"], check=True)
    sys.path[:0] = [str(tests), str(packages), str(torchvision)]
