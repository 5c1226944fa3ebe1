"""torch.onnx's modules ``symbolic_opset9`` … ``symbolic_opset20`` as look-ups into the tables of the export that runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp.errors import LoweringError
from onnxexp.torch_onnx.context import GraphContext
from onnxexp.torch_onnx.emitting import numbers
from onnxexp.torch_schemas import NoOverload, chosen

__all__ = ["symbolic", "torch_op"]

_RENAMED = {
    "__and_": "__and__",
    "__or_": "__or__",
    "__xor_": "__xor__",
    "__not_": "logical_not",
    "__lshift_": "__lshift__",
    "__rshift_": "__rshift__",
    "_slice": "slice",
    "_reshape_from_tensor": "reshape",
    "_dim_arange": "_dim_arange",
    "_shape_as_tensor": "_shape_as_tensor",
}
"""What torch.onnx's functions are called otherwise than the operators."""


def torch_op(g: GraphContext, name: str, *args: Any, **kwargs: Any) -> Any:
    """A torch operator (``relu``, ``max.dim``) in the place of an ONNX one: whoever lowers it in this export does.

    Returns a value, or a tuple of them. Raises LoweringError where torch has no such operator, or nobody lowers it.
    """
    full = name if "::" in name else f"aten::{name}"
    schemas = _schemas(full)
    if not schemas:
        raise LoweringError(f"torch has no operator {full}")
    positional = _in_order(schemas, args, kwargs)
    assert g.scratch is not None
    values = [each if isinstance(each, torch._C.Value) else g.scratch.value(each) for each in positional]
    known = [g.scratch.emitter.look_up(each) for each in values]
    try:
        schema = chosen(full, known)
    except NoOverload:
        schema = chosen(full, numbers(known))
    packet = full.partition(".")[0]
    return g.op(packet, *values, outputs=len(schema.returns), overload_s=schema.overload_name or None)


def _schemas(full: str) -> list[torch.FunctionSchema]:
    packet, _, overload = full.partition(".")
    found = torch._C._jit_get_schemas_for_operator(packet)
    return [
        each
        for each in found
        if (not overload or each.overload_name == overload) and not any(argument.is_out for argument in each.arguments)
    ]


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
    op = _RENAMED.get(name, name)
    if name.startswith("__") or not _schemas(f"aten::{op}"):
        raise AttributeError(f"torch has no operator aten::{op}")

    def lookup(g: GraphContext, *args: Any, **kwargs: Any) -> Any:
        return torch_op(g, op, *args, **kwargs)

    lookup.__name__ = name
    return lookup
