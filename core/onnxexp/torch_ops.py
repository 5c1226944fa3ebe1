"""Facts about operators of torch: schemas, result types, writes, codes of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._functionalize.mutation import MutationInfo
    from onnxexp._plugins.loading import symbolics_for
    from onnxexp._torch_ops.schemas import OverloadCall, overload, schemas
    from onnxexp._torch_ops.type_codes import TYPE_CODES

__all__ = [
    "TYPE_CODES",
    "MutationInfo",
    "OverloadCall",
    "overload",
    "schemas",
    "symbolics_for",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_functionalize.mutation": "MutationInfo",
        "_plugins.loading": "symbolics_for",
        "_torch_ops.schemas": "OverloadCall overload schemas",
        "_torch_ops.type_codes": "TYPE_CODES",
    },
)
