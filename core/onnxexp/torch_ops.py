"""Facts about operators of torch: schemas, result types, writes, codes of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._functionalize.mutation import RESIZE_CURE, UNDECLARED, facts, restrides, twin
    from onnxexp._plugins.loading import symbolics_for
    from onnxexp._torch_ops.result_types import result_types
    from onnxexp._torch_ops.schemas import (
        NoOverload,
        bind,
        cache_by_operator,
        chosen,
        full_name,
        listed,
        overload,
        schemas,
        takes,
    )
    from onnxexp._torch_ops.type_codes import DTYPES, VALUES, type_code

__all__ = [
    "DTYPES",
    "NoOverload",
    "RESIZE_CURE",
    "UNDECLARED",
    "VALUES",
    "bind",
    "cache_by_operator",
    "chosen",
    "facts",
    "full_name",
    "listed",
    "overload",
    "restrides",
    "result_types",
    "schemas",
    "symbolics_for",
    "takes",
    "twin",
    "type_code",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_functionalize.mutation": "RESIZE_CURE UNDECLARED facts restrides twin",
        "_plugins.loading": "symbolics_for",
        "_torch_ops.result_types": "result_types",
        "_torch_ops.schemas": "NoOverload bind cache_by_operator chosen full_name listed overload schemas takes",
        "_torch_ops.type_codes": "DTYPES VALUES type_code",
    },
)
