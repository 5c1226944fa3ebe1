"""torch.onnx's symbolics by name, looked up in the running export.

They are the contents of ``symbolic_opset7`` … ``symbolic_opset20``. The names of ``symbolic_helper`` are there too, as in older
editions of torch.onnx.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnxexp_torch_onnx import symbolic_helper
from onnxexp_torch_onnx.context import GraphContext
from onnxexp_torch_onnx.overload_matching import overloads
from onnxexp_torch_onnx.symbolic_helper.opset9_names import REMOVED_SYMBOLICS
from onnxexp_torch_onnx.symbolic_helper.quantized_names import QUANTIZED_SYMBOLICS
from onnxexp_torch_onnx.torch_op import torch_op

__all__ = ["OPERATORS", "symbolic"]

OPERATORS = {
    "__and_": "__and__",
    "__or_": "__or__",
    "__xor_": "__xor__",
    "__not_": "logical_not",
    "__lshift_": "__lshift__",
    "__rshift_": "__rshift__",
}
"""The operators of torch.onnx's functions that cannot have the operator's name."""
_RENAMED = OPERATORS | {
    "_reshape_from_tensor": "reshape",
    "_div_rounding_mode": "div",
    "_floor_divide": "floor_divide",
    "_gt_impl": "gt",
    "_lt_impl": "lt",
    "_var_mean": "var_mean",
    "_einsum_helper": "einsum",
    "_linalg_matrix_norm": "linalg_matrix_norm",
    "_glu": "glu",
    "_logsumexp": "logsumexp",
    "_native_layer_norm": "native_layer_norm",
}
"""torch.onnx's functions whose names differ from the operators', its helpers among them."""


@functools.lru_cache(maxsize=None)
def symbolic(name: str) -> Callable[..., Any]:
    """Return torch.onnx's symbolic of this name.

    Raises AttributeError if torch has no such operator.
    """
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # Python looks these up on modules
    for table in (REMOVED_SYMBOLICS, QUANTIZED_SYMBOLICS):
        if name in table:
            return table[name]
    if name in symbolic_helper.__all__:
        return getattr(symbolic_helper, name)  # type: ignore[no-any-return] # a name that the caller gives
    op = _RENAMED.get(name, name)
    if not overloads(f"aten::{op}"):
        raise AttributeError(f"torch has no operator aten::{op}")

    def lookup(g: GraphContext, *args: Any, **kwargs: Any) -> Any:
        return torch_op(g, op, *args, **kwargs)

    lookup.__name__ = name
    return lookup
