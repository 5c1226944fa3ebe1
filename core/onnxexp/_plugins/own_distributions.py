"""Recognize the distributions of this project, and reserve their names.

A name alone proves nothing: anybody may call a distribution ``onnxexp-plugin-aten``.
"""

from __future__ import annotations

import os
from typing import Any

from packaging.utils import canonicalize_name

from onnxexp._plugins.distribution_files import editable_source

_PREFIX = "onnxexp-plugin-"
_NAMES = {
    "onnxexp.plugins": {
        **{name: name for name in (
            "aten", "autograd", "custom-cpp", "quantized", "report", "torch-onnx", "torchscript", "torchvision", "transformers"
        )},
        "onnxruntime-contrib": "ort",
    },
    "onnxexp.commands": {
        "quantization-report": "quantization-report", "run": "torch-onnx", "scaffold-op": "custom-cpp", "sweep": "sweep"
    },
    "onnxexp.targets": {"hf": "transformers"},
}  # fmt: skip
OWNERS = {(group, name): _PREFIX + owner for group, names in _NAMES.items() for name, owner in names.items()}
"""The distribution that alone may have an entry point, by group and name."""


def is_own(name: str, value: str, distribution: Any) -> bool:
    """Return whether an entry point is that of a distribution of this project.

    The distribution has a name of this project, the entry point names the package that belongs to it, and the package is among
    the distribution's files.
    """
    own = canonicalize_name(name)
    package = "onnxexp_" + own.removeprefix(_PREFIX).replace("-", "_")
    if own not in OWNERS.values() or value.partition(":")[0].partition(".")[0] != package:
        return False
    record, source = distribution.read_text("RECORD"), editable_source(distribution)
    if source or record is None:
        return os.path.isdir(os.path.join(source or distribution.locate_file(""), package))
    return any(line.startswith(f"{package}/") for line in record.splitlines())
