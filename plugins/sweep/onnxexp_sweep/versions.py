"""The versions of everything that a cell's result depends on."""

from __future__ import annotations

import platform

from importlib_metadata import PackageNotFoundError, entry_points, version

from onnxexp_sweep.zoo import MODELS

PACKAGES = ("python", "torch", "onnx", "onnx-ir", "onnxruntime", "onnxexp")
"""What has a column of its own in the results."""

_LIBRARIES = ("numpy", "onnxscript", "torchao", "torchvision", "transformers")
"""Packages that models and plugins use, where they are installed."""


def installed() -> dict[str, str]:
    """Return the versions by distribution; "" for one of `PACKAGES` that is missing."""
    distributions = {
        point.dist.name for group in ("onnxexp.plugins", MODELS) for point in entry_points(group=group) if point.dist is not None
    }
    found = {
        "python": platform.python_version(),
        **{name: _version(name) for name in (*PACKAGES[1:], *_LIBRARIES, *sorted(distributions))},
    }
    return {name: number for name, number in found.items() if number or name in PACKAGES}


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Describe each version that differs, as ``torch 2.13.0 and 2.14.0``."""
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return [f"{name} {first.get(name) or 'missing'} and {second.get(name) or 'missing'}" for name in names]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
