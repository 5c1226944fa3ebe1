"""Wheels of small packs, written by hand as zips of modules and metadata."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import textwrap
import zipfile
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Pack:
    """A distribution with one module and one plugin.

    Attributes:
        name: The name of the distribution and, with underscores, of the module.
        source: The code of the module.
        plugin: The name of the plugin; "" stands for the distribution's.
        value: The name in the module to which the entry point refers.
        requires: Requirements.
    """

    name: str
    source: str
    plugin: str = ""
    value: str = "plugin"
    version: str = "1.0"
    requires: tuple[str, ...] = ("onnxexp>=0.1.0",)

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    def files(self) -> dict[str, str]:
        """Return the texts of the wheel, by path."""
        info = f"{self.module}-{self.version}.dist-info"
        requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in self.requires)
        return {
            f"{self.module}/__init__.py": textwrap.dedent(self.source),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n{requires}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[onnxexp.plugins]\n{self.plugin or self.name} = {self.module}:{self.value}\n",
        }

    def wheel(self, folder: Path) -> Path:
        """Write the wheel into a folder."""
        texts = self.files()
        info = f"{self.module}-{self.version}.dist-info"
        rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in texts.items()]
        texts[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.module}-{self.version}-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as archive:
            for path, text in texts.items():
                archive.writestr(path, text)
        return file

    def unpack(self, folder: Path) -> None:
        """Put module and metadata into a folder, without installing anything."""
        for path, text in self.files().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def relu_pack(name: str, steps: int, *, override: bool = False) -> Pack:
    """Build a pack that lowers aten::relu to `steps` Relu nodes, for tests to detect."""
    source = f"""
        from onnxexp import SymbolicTable

        plugin = SymbolicTable("aten", override={override})

        @plugin("relu")
        def relu(op, self):
            for _ in range({steps}):
                self = op.Relu(self)
            return self
    """
    return Pack(name, source)
