"""The table of environments: versions, and the reason of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Row:
    """One environment.

    Attributes:
        name: The name of the row, for the command line and the data.
        python: The minor version of Python.
        pins: What pip must install; everything else is the newest that fits.
        reason: Why the environment is in the table.
        without: The distributions that are not installed, with the reason of each.
    """

    name: str
    python: str
    pins: tuple[str, ...]
    reason: str
    without: Mapping[str, str] = dataclasses.field(default_factory=dict)


_FLOORS = ("torch==2.11.0", "onnx==1.17.0", "onnxruntime==1.20.0", "onnx-ir==1.1.0", "numpy==2.0.0", "pluggy==1.5.0")

# fmt: off
ROWS = (
    Row("torch-2.13", "3.11", ("torch==2.13.0",), "the environment of `make setup`, with which the others are compared"),
    Row("torch-2.15", "3.11", ("torch==2.15.0",), "the newest torch"),
    Row("torch-2.11", "3.11", ("torch==2.11.0",), "the floor of torch"),
    Row("torch-2.12", "3.11", ("torch==2.12.1",), "a torch between the floor and the newest"),
    Row("torch-2.14", "3.11", ("torch==2.14.1",), "a torch between the floor and the newest"),
    Row("newest", "3.13", (), "no pin: the newest of everything, torch included, on the newest Python"),
    Row("python-3.10", "3.10", ("torch==2.14.1",), "the newest torch that has Python 3.10, the floor of Python"),
    Row("python-3.12", "3.12", ("torch==2.15.0",), "the newest torch on a Python between the floor and the newest"),
    Row(
        "floors", "3.11", _FLOORS, "the floors of onnx, ONNX Runtime, onnx-ir, numpy and pluggy, with that of torch",
        {"onnxruntime-genai": "it requires onnxruntime 1.31"},
    ),
)
# fmt: on
FIRST = ROWS[0]
"""The environment that the conformance of the others is compared with."""


def row(name: str) -> Row:
    """Return the row of a name; raise KeyError for an unknown name."""
    return {each.name: each for each in ROWS}[name]
