"""The neutral graph: frontends return it, passes rewrite it, lowering reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Type, Value, values_in
    from onnxexp._source_location import SourceLocation
    from onnxexp._symbolic_size import SymbolicSize

__all__ = [
    "Dim",
    "Graph",
    "Node",
    "ScalarType",
    "SourceLocation",
    "SymbolicSize",
    "TensorType",
    "Type",
    "Value",
    "values_in",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_neutral_graph": "Dim Graph Node ScalarType TensorType Type Value values_in",
        "_source_location": "SourceLocation",
        "_symbolic_size": "SymbolicSize",
    },
)
