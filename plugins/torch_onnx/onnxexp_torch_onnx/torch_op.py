"""Torch operators in the place of ONNX operators, inside a symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxexp import LoweringError
from onnxexp_torch_onnx.context import GraphContext
from onnxexp_torch_onnx.overload_matching import match_overload, overloads

__all__ = ["torch_op"]


def torch_op(g: GraphContext, name: str, *args: Any, _outputs: int | None = None, **kwargs: Any) -> Any:
    """Call a torch operator (``relu``, ``max.dim``) inside a symbolic.

    The running export lowers the operator.

    Returns a value, or a tuple of values. For an operator that returns a list, the result is one value for `_unpack_list`, or
    the elements if `_outputs` is their number. Raises LoweringError if torch has no such operator or no plugin lowers it.
    """
    full = name if "::" in name else f"aten::{name}"
    schemas = overloads(full)
    if not schemas:
        raise LoweringError(f"torch has no operator {full}")
    assert g.scratch is not None
    values = [g.scratch.value(each) for each in _in_order(schemas, args, kwargs)]
    call = match_overload(g.scratch.op, full, [g.scratch.emitter.look_up(each) for each in values])
    packet = full.partition(".")[0]
    overload_name = call.schema.overload_name or None
    if not call.returns_list:
        return g.op(packet, *values, outputs=len(call.schema.returns), overload_s=overload_name)
    types = None if _outputs is not None else call.result_types(g.scratch.op.fresh_dim)
    if _outputs is None and types is None:
        raise LoweringError(f"the number of tensors that {full} returns here is not known at export; pass _outputs=")
    made = g.op(packet, *values, outputs=_outputs or len(types or ()), overload_s=overload_name)
    pieces = list(made) if isinstance(made, tuple) else [made]
    return pieces if _outputs is not None else g.op("prim::ListConstruct", *pieces)


def _in_order(schemas: Sequence[torch.FunctionSchema], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """List the arguments by position, without None at the end."""
    positional = list(args)
    if kwargs:
        by_name = next((each for each in schemas if set(kwargs) <= {argument.name for argument in each.arguments}), None)
        if by_name is None:
            raise LoweringError(f"{schemas[0].name} has no argument {' or '.join(kwargs)}")
        positional += [kwargs.get(argument.name, argument.default_value) for argument in by_name.arguments[len(positional) :]]
    while positional and positional[-1] is None:
        positional.pop()
    return positional
