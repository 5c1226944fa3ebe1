"""The environment of the libraries, beside the one of the project.

It sees the project, its packages and its torch, and the torchvision that ``make torchvision`` builds; only the libraries and
what they import beside these are installed in it. Their own requirements are not, since pins of torch would not fit.

``python -m tests.libraries.environment .venv/libraries`` makes it.
"""

from __future__ import annotations

import hashlib
import re
import site
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
TORCHAUDIO = "torchaudio==2.11.1"
"""In a folder of its own: its compiled part is for another torch, and libraries that find it import it."""


def make(folder: Path, torchvision: Path) -> Path:
    """Make the environment, unless it is up to date; return its Python."""
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + f"{TORCHAUDIO} {ROOT}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    packages = Path(
        subprocess.check_output([str(python), "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
    )
    sources = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
    seen = [*site.getsitepackages(), *map(str, sources), str(torchvision.resolve())]
    (packages / "project.pth").write_text("\n".join(seen) + "\n", "utf-8")
    _describe_torchvision(packages, torchvision)
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "-r", str(REQUIREMENTS)], check=True)
    subprocess.run([*install, "--upgrade", "--target", str(folder / "torchaudio"), TORCHAUDIO], check=True)
    stamp.write_text(wanted, "utf-8")
    return python


def _describe_torchvision(packages: Path, torchvision: Path) -> None:
    """Write the metadata of torchvision, which the build has not: libraries look up its version."""
    text = (torchvision / "torchvision" / "version.py").read_text("utf-8")
    version = re.findall(r"__version__ = ['\"]([\d.]+)", text)[0]
    metadata = packages / f"torchvision-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: torchvision\nVersion: {version}\n", "utf-8")


if __name__ == "__main__":
    made = Path(sys.argv[1])
    make(made, made.with_name("torchvision"))
