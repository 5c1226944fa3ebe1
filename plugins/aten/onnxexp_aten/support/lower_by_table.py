"""Lower one operator by the table of another module."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, SymbolicTable


def lower_by(op: Builder, table: SymbolicTable, name: str, *args: Any) -> Any:
    """Lower an ATen operator by a table's entry for the target opset."""
    entry = table.find(f"aten::{name}", op.opset)
    assert entry is not None
    return entry.function(op, *args)
