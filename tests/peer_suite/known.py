"""The tests that fail with onnxexp, with the reason of each."""

from __future__ import annotations

import dataclasses

__all__ = ["KNOWN", "Known"]

_ALL = ("traced, opset 9", "traced, opset 13", "traced, opset 17")
_SCRIPTED = ("scripted, opset 17",)


@dataclasses.dataclass(frozen=True)
class Known:
    """Tests that fail for one reason, in all of these runs."""

    reason: str
    runs: tuple[str, ...]
    tests: tuple[str, ...]


KNOWN: list[Known] = []
