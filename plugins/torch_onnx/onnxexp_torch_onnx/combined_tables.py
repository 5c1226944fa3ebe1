"""Several tables of symbolics as one plugin of a call."""

from __future__ import annotations

import dataclasses
from typing import Any

from onnxexp import SymbolicTable


@dataclasses.dataclass(frozen=True)
class CombinedTables:
    """Several tables as one plugin, where the first that lowers an operator wins.

    As separate plugins of one call, tables that lower the same operator would be a conflict.
    """

    symbolics: tuple[SymbolicTable, ...]


def combined(*tables: SymbolicTable) -> list[Any]:
    """Combine the tables with symbolics into at most one plugin.

    The first table that lowers an operator wins.
    """
    found = tuple(table for table in tables if len(table))
    return list(found) if len(found) < 2 else [CombinedTables(found)]
