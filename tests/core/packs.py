"""Distributions with plugins, made on the spot in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TABLE = "from onnxexp import SymbolicTable\ntable = SymbolicTable('mine')\ntable.direct({'relu': 'Relu'})\n"

CLASS = "import onnxexp\nclass Pack:\n    {}\ntable = Pack()\n"
BROKEN = {
    "symbolics = 5": (CLASS.format("symbolics = 5"), "its `symbolics` are 5; to fix this"),
    "a table of another kind": (CLASS.format("symbolics = [5]"), "its `symbolics` contain 5"),
    "symbolics that raise": (CLASS.format("symbolics = property(lambda self: 1 // 0)"), "ZeroDivisionError"),
    "an attribute that raises": (CLASS.format("size = property(lambda self: 1 // 0)"), "(ZeroDivisionError|is neither)"),
    "an endless iterator": ("import itertools\n" + CLASS.format("symbolics = itertools.count()"), r"`symbolics` are count\(0\)"),
    "a generator": (CLASS.format("symbolics = (table for table in ())"), "`symbolics` are <generator"),
    "a class that lies": (CLASS.format("__class__ = property(lambda self: 1 // 0)"), "ZeroDivisionError"),
    "attributes that raise SystemExit": (CLASS.format("def __getattr__(self, name): raise SystemExit(3)"), "SystemExit: 3"),
    "no repr": (CLASS.format("def __repr__(self): raise SystemExit(3)"), "SystemExit: 3"),
    "another exception": ("class B(BaseException): ...\nraise B('strange')", "B: strange"),
    "an exception without a message": (
        "class B(BaseException):\n    def __str__(self): 1 // 0\nraise B", "B, whose message raises ZeroDivisionError"
    ),
    "an exit": ("import sys\nsys.exit(0)", "SystemExit: 0"),
    "a syntax error": ("def", "SyntaxError"),
    "an operator that is no text": (TABLE.replace("'relu'", "5"), "TypeError"),
    "an ONNX operator that is no text": (TABLE.replace("'Relu'", "5"), "relu is to become 5; to fix this"),
    "an opset that is no number": (TABLE + "table('tanh', since='20')(lambda op, x: x)\n", "whole numbers as opsets"),
    "a symbolic that is no function": (TABLE + "table('tanh')(5)\n", "the symbolic of mine::tanh is .* "
    "to fix this, give a function"),
    "a recursion": ("def f(): f()\nf()", "RecursionError"),
    "no memory": ("raise MemoryError", "MemoryError"),
}  # fmt: skip
"""Modules whose `table` breaks a reader, and what the error names."""
METADATA = b"Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
ENTRY = b"[onnxexp.plugins]\nacme = acme_pack:plugin\n"
DAMAGED: dict[str, Mapping[str, bytes]] = {
    "a line without =": {"METADATA": METADATA, "entry_points.txt": b"[console_scripts]\nacme\n"},
    "an entry without =": {"METADATA": METADATA, "entry_points.txt": b"[onnxexp.plugins]\nacme\n"},
    "Latin-1 entry points": {"METADATA": METADATA, "entry_points.txt": b"[console_scripts]\nacm\xe9 = acme:main\n"},
    "no Name": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.0\n", "entry_points.txt": ENTRY},
    "no Version": {"METADATA": b"Metadata-Version: 2.1\nName: acme\n", "entry_points.txt": ENTRY},
    "Latin-1 author": {"METADATA": METADATA + b"Author: Ren\xe9\n", "entry_points.txt": ENTRY},
    "no section": {"METADATA": METADATA, "entry_points.txt": b"acme = acme:main\n"},
}
"""The files of metadata that cannot be read."""


def install(folder: Path, name: str, modules: Mapping[str, str], value: str, plugin: str = "") -> Path:
    """Install a distribution with these modules and the plugin; return its metadata."""
    package = folder / value.partition(":")[0].partition(".")[0]
    package.mkdir(exist_ok=True)
    for module, source in modules.items():
        (package / f"{module}.py").write_text(source)
    rows = [f"{package.name}/{module}.py,sha256=as-the-installer-says,1" for module in modules]
    return write_metadata(folder, name, f"[onnxexp.plugins]\n{plugin or name} = {value}\n", rows)


def write_metadata(folder: Path, name: str, entry_points: str, record: list[str]) -> Path:
    """Write a distribution's metadata with these rows of RECORD; return its folder."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (metadata / "RECORD").write_text("\n".join([*record, f"{name}-1.0.dist-info/RECORD,,", "../bin/script,sha256=any,1"]) + "\n")
    return metadata


def write_damaged(folder: Path, kind: str) -> None:
    """Write the metadata of a distribution that cannot be read."""
    metadata = folder / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    for name, content in DAMAGED[kind].items():
        (metadata / name).write_bytes(content)
