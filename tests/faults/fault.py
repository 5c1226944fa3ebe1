"""Faults that are caused on purpose, and what an exporter does about them."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable
from pathlib import Path

ONNXEXP = "onnxexp"
TORCH_ONNX = "torch.onnx"


@dataclasses.dataclass
class Row:
    """The result of one fault for one exporter.

    Attributes:
        tries: How often the fault was caused.
        bad: What went wrong, one text for each try that did.
        counts: The number of each outcome, where a fault has several.
    """

    part: str
    fault: str
    exporter: str
    tries: int = 0
    bad: list[str] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    def check(self, right: bool, problem: str) -> None:
        """Count one try, and note its problem unless it went right."""
        self.tries += 1
        if not right:
            self.bad.append(problem)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: The name in the table.
        cause: Cause the fault for an exporter in an empty folder, and fill the row.
        exporters: The exporters that can do the same.
    """

    name: str
    cause: Callable[[Row, Path], None]
    exporters: tuple[str, ...] = (ONNXEXP,)


def fork() -> int:
    """Fork a child that does not collect the garbage of its parent.

    Tests leave objects whose end needs threads that a child lacks, such as sessions of ONNX Runtime.
    """
    child = os.fork()
    if child == 0:
        gc.freeze()
    return child
