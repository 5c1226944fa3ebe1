"""torch.onnx's modules ``symbolic_opset7`` … ``symbolic_opset20`` as look-ups into the tables of the export that runs.

`symbolic_opsets` makes these modules; every attribute of theirs comes from `symbolic`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp.errors import LoweringError
from onnxexp.torch_onnx.context import GraphContext
from onnxexp.torch_onnx.overload_matching import fitted, overloads
from onnxexp.torch_ops.result_types import result_types
from onnxexp.torch_ops.schemas import bind, listed, overload

__all__ = ["symbolic", "torch_op"]

_RENAMED = {
    "__and_": "__and__",
    "__or_": "__or__",
    "__xor_": "__xor__",
    "__not_": "logical_not",
    "__lshift_": "__lshift__",
    "__rshift_": "__rshift__",
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
"""What torch.onnx's functions are called otherwise than the operators."""


def torch_op(g: GraphContext, name: str, *args: Any, _outputs: int | None = None, **kwargs: Any) -> Any:
    """A torch operator (``relu``, ``max.dim``) in the place of an ONNX one: whoever lowers it in this export does.

    Returns a value, or a tuple of them. An operator that gives a list gives a value that `_unpack_list` takes apart, or, where
    `_outputs` says how many its elements are, those. Raises LoweringError where torch has no such operator, or nobody lowers it.
    """
    full = name if "::" in name else f"aten::{name}"
    schemas = overloads(full)
    if not schemas:
        raise LoweringError(f"torch has no operator {full}")
    assert g.scratch is not None
    values = [g.scratch.value(each) for each in _in_order(schemas, args, kwargs)]
    schema, given = fitted(g.scratch.op, full, [g.scratch.emitter.look_up(each) for each in values])
    packet = full.partition(".")[0]
    overload_name = schema.overload_name or None
    if not listed(schema):
        return g.op(packet, *values, outputs=len(schema.returns), overload_s=overload_name)
    found = overload(f"{packet}.{overload_name}" if overload_name else packet)
    types = None if _outputs is not None else result_types(found, bind(schema, given, {}), g.scratch.op.fresh_dim)
    if _outputs is None and types is None:
        raise LoweringError(f"how many tensors {full} gives here is not known at export; say _outputs=")
    made = g.op(packet, *values, outputs=_outputs or len(types or ()), overload_s=overload_name)
    pieces = list(made) if isinstance(made, tuple) else [made]
    return pieces if _outputs is not None else g.op("prim::ListConstruct", *pieces)


def _in_order(schemas: Sequence[torch.FunctionSchema], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Every argument by position; None at the end is left to the default."""
    given = list(args)
    if kwargs:
        named = next((each for each in schemas if set(kwargs) <= {argument.name for argument in each.arguments}), None)
        if named is None:
            raise LoweringError(f"{schemas[0].name} has no argument {' or '.join(kwargs)}")
        given += [kwargs.get(argument.name, argument.default_value) for argument in named.arguments[len(given) :]]
    while given and given[-1] is None:
        given.pop()
    return given


@functools.lru_cache(maxsize=None)
def symbolic(name: str) -> Callable[..., Any]:
    """torch.onnx's symbolic of this name. Raises AttributeError where torch has no such operator."""
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # what Python asks of a module
    helpers = importlib.import_module("onnxexp.torch_onnx.symbolic_helper.removed_symbolics")  # which is built on this module
    if name in helpers.FORMERLY:
        found: Callable[..., Any] = helpers.FORMERLY[name]
        return found
    op = _RENAMED.get(name, name)
    if not overloads(f"aten::{op}"):
        raise AttributeError(f"torch has no operator aten::{op}")

    def lookup(g: GraphContext, *args: Any, **kwargs: Any) -> Any:
        return torch_op(g, op, *args, **kwargs)

    lookup.__name__ = name
    return lookup
