"""Rows of results for tests, without an export."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxexp_sweep.cell_list import Cell, cells_of
from onnxexp_sweep.results import row_of
from onnxexp_sweep.zoo import Model, Zoo

VERSIONS = {
    "python": "3.11.4", "torch": "2.13.0", "onnx": "1.23.2", "onnx-ir": "1.1.0", "onnxruntime": "1.32.0", "onnxexp": "0.1.0",
    "onnxexp-plugin-aten": "0.1.0",
}  # fmt: skip

OUTCOME: dict[str, Any] = {
    "status": "ok", "step": "verify", "started": 1.7e9, "seconds": 2.5, "load_seconds": 0.1, "export_seconds": 2.0,
    "write_seconds": 0.1, "check_seconds": 0.1, "verify_seconds": 0.2, "stages": {"capture": 1.5, "lower": 0.5},
    "peak_bytes": 600_000_000, "nodes": 12, "file_bytes": 5_000, "max_error": 1e-7, "verified": ["the example"],
    "not_verified": [], "warnings": [], "worker": "here 0",
}  # fmt: skip


def cells(models: int, opsets: int = 1, frontends: tuple[str, ...] = ("export",)) -> list[Cell]:
    """List cells of models that need not exist."""
    zoo = Zoo(Path("/nowhere"), tuple(Model(f"model{number}", f"nowhere:model{number}") for number in range(models)))
    return cells_of(zoo, range(9, 9 + opsets), frontends)


def rows(found: list[Cell], versions: dict[str, str] | None = None, **outcome: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of cells that end alike."""
    for cell in found:
        yield row_of(cell.job(versions or VERSIONS), OUTCOME | outcome)


def many(count: int) -> list[Cell]:
    """List exactly `count` cells."""
    return list(itertools.islice(cells(-(-count // 20), 10, ("export", "trace")), count))
