"""Installed versions, requirements of distributions, and tested combinations."""

from __future__ import annotations

import dataclasses
import platform

from importlib_metadata import PackageNotFoundError, distribution, version
from packaging import requirements as standard
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

_COLUMNS = ("python", "torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")
_ROWS = (
    "3.11 2.13 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.11 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.12 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.14 1.23 1.1 1.32 0.7 1.7",
    "3.13 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.10 2.14 1.23 1.1 1.23 0.7 1.7",
    "3.12 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.11 1.17 1.1 1.20 0.7 1.5",
)
TESTED: tuple[dict[str, str], ...] = tuple(dict(zip(_COLUMNS, row.split(), strict=True)) for row in _ROWS)
"""The rows of docs/reference/compatibility.md that are green; other versions that the metadata allows should work."""

PACKAGES = ("torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A requirement in a distribution's metadata (``torch``, ``>=2.11``).

    `extra` is set if only that extra needs the package.
    """

    package: str
    versions: SpecifierSet
    extra: str = ""

    def met_by(self, present: str) -> bool:
        """Check a version, also a pre-release such as a nightly build."""
        return self.versions.contains(present, prereleases=True)


def installed(package: str) -> str:
    """Return a distribution's version, or "" if it is not installed.

    For ``python``, the version of the interpreter is returned.
    """
    if package == "python":
        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def requirements(name: str) -> list[Requirement]:
    """Read a distribution's requirements for this platform.

    Returns an empty list if the distribution is not installed.

    Raises:
        packaging.requirements.InvalidRequirement, packaging.specifiers.InvalidSpecifier: The metadata is malformed.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return []
    python = found.metadata.get("Requires-Python")
    listed = [Requirement("python", SpecifierSet(python))] if python else []
    extras = ("", *(found.metadata.get_all("Provides-Extra") or ()))
    for each in map(standard.Requirement, found.requires or ()):
        applicable = (extra for extra in extras if each.marker is None or each.marker.evaluate({"extra": extra}))
        if (extra := next(applicable, None)) is not None:
            listed.append(Requirement(canonicalize_name(each.name), each.specifier, extra))
    return listed
