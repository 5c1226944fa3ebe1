"""Fifty packs are listed from metadata alone; the time is printed (pytest -s)."""

from __future__ import annotations

import time
from pathlib import Path

from tests.packaging.conftest import Make
from tests.packaging.packs import Pack

COUNT = 50

LISTS = """
    import json, sys
    from onnxexp._cli import main

    status = main(["plugins", *arguments])
    heavy = ("torch", "onnx", "onnx_ir", "numpy", "onnxruntime", "pluggy")
    print(json.dumps([status, [name for name in sys.modules if name.startswith("pack_") or name in heavy]]))
"""


def test_fifty_packs_are_listed_without_importing_anything(make: Make, tmp_path: Path) -> None:
    source = "raise AssertionError('imported')\n"
    environment = make("onnxexp", *(Pack(f"pack-{number:02}", source).wheel(tmp_path) for number in range(COUNT)))
    assert environment.states() == {f"pack-{number:02}": "on" for number in range(COUNT)}
    for arguments in ("[]", "['--json']", "['--without', 'pack-07']", "['--plugins', 'pack-07']"):
        assert environment.python(LISTS.replace("*arguments", f"*{arguments}")).reported == [0, []]
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        environment.command("plugins")
        seconds.append(time.perf_counter() - begin)
    print(f"\n`onnxexp plugins` with {COUNT} packs: {min(seconds):.3f} s (best of {len(seconds)}), {max(seconds):.3f} s (worst)")
