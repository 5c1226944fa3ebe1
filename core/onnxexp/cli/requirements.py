"""Versions: what is installed, what distributions ask for in their metadata, and what the project is tested with."""

from __future__ import annotations

import dataclasses
import operator
import os
import platform
import re
import sys
from collections.abc import Callable

from importlib_metadata import PackageNotFoundError, distribution, version

__all__ = ["PACKAGES", "TESTED", "Requirement", "installed", "requirements"]

TESTED = (
    {
        "python": "3.11",
        "torch": "2.13",
        "onnx": "1.23",
        "onnx-ir": "1.1",
        "onnxruntime": "1.31",
        "onnxscript": "0.7",
        "pluggy": "1.7",
    },
)
"""The combinations that the tests of the whole project run with; other versions that the metadata allows should work."""

PACKAGES = ("torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_MARKER = re.compile(r"""\s*\(?\s*(\w+)\s*(>=|<=|==|!=|<|>)\s*['"]([^'"]*)['"]\s*\)?\s*""")
_PLATFORM = {"sys_platform": sys.platform, "platform_system": platform.system(), "os_name": os.name}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|~=|>|<)\s*([0-9.]+)(\.\*)?\s*")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "~=": operator.ge,
    "==": lambda have, want: have[: len(want)] == want, "!=": lambda have, want: have[: len(want)] != want,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Requirement:
    """What a distribution asks for: ``torch``, ``>=2.13``; `extra` where only one of its extras does."""

    package: str
    versions: str
    extra: str = ""

    def met_by(self, present: str) -> bool:
        """Whether a version satisfies every clause, judged by its release numbers."""
        clauses = [_CLAUSE.fullmatch(clause) for clause in self.versions.split(",") if clause.strip()]
        have = _release(present)
        return all(clause is None or _COMPARE[clause[1]](have, _release(clause[2])) for clause in clauses)


def installed(package: str) -> str:
    """A distribution's version, "" where it is not installed; that of the interpreter for ``python``."""
    if package == "python":
        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def requirements(name: str) -> list[Requirement]:
    """What an installed distribution's metadata asks for; nothing where it is not installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return []
    python = found.metadata.get("Requires-Python")
    listed = [Requirement("python", python)] if python else []
    for line in found.requires or ():
        match = _REQUIREMENT.fullmatch(line)
        extra = _applies(match[3] or "") if match is not None else None
        if match is not None and extra is not None:
            listed.append(Requirement(match[1].lower().replace("_", "-"), match[2].strip(), extra))
    return listed


def _applies(marker: str) -> str | None:
    """The extra that a marker names ("" for none); None where it does not hold here, or is not understood."""
    extra = ""
    for clause in re.split(r"\s+and\s+", marker) if marker.strip() else ():
        match = _MARKER.fullmatch(clause)
        if match is None:
            return None
        name, compare, value = match.groups()
        if name == "extra":
            extra = value
        elif name == "python_version":
            if not _COMPARE[compare](sys.version_info[:2], _release(value)):
                return None
        elif name not in _PLATFORM or (_PLATFORM[name] == value) is not (compare == "=="):
            return None
    return extra


def _release(text: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` as (2, 13); trailing zeros say nothing."""
    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[^0-9.]", text, maxsplit=1)[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
