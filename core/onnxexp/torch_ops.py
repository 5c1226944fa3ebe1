"""Facts about operators of torch: schemas, result types, writes, codes of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._functionalize.mutation import MutationInfo
    from onnxexp._plugins.loading import symbolics_for
    from onnxexp._torch_ops.result_types import result_types
    from onnxexp._torch_ops.schemas import (
        NoOverload,
        accepts,
        bind,
        choose_overload,
        full_name,
        overload,
        returns_list,
        schemas,
    )
    from onnxexp._torch_ops.type_codes import TYPE_CODES, type_code

__all__ = [
    "NoOverload",
    "MutationInfo",
    "TYPE_CODES",
    "bind",
    "choose_overload",
    "full_name",
    "returns_list",
    "overload",
    "result_types",
    "schemas",
    "symbolics_for",
    "accepts",
    "type_code",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_functionalize.mutation": "MutationInfo",
        "_plugins.loading": "symbolics_for",
        "_torch_ops.result_types": "result_types",
        "_torch_ops.schemas": "NoOverload bind choose_overload full_name returns_list overload schemas accepts",
        "_torch_ops.type_codes": "TYPE_CODES type_code",
    },
)
