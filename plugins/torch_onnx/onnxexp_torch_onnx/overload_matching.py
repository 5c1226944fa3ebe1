"""Match a symbolic's values to an overload of a torch operator.

A symbolic passes values of a graph; an operator's schema takes numbers, lists of numbers and dtypes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.torch_ops import TYPE_CODES, OverloadCall, schemas

_NUMBERS = ("int", "float", "bool", "number")


def overloads(full: str) -> list[torch.FunctionSchema]:
    """List the schemas of an operator: all overloads, or the one in the name.

    Overloads with an ``out`` argument are left out.
    """
    return [each for each in schemas(full) if not any(argument.is_out for argument in each.arguments)]


def match_overload(op: Builder, full: str, args: Sequence[Any]) -> OverloadCall:
    """Find the overload that takes these arguments, and convert them for it.

    Arguments are converted only where no overload takes them as they are.

    Raises LoweringError where no overload takes the converted arguments.
    """
    call = OverloadCall.of(full, args, functools.partial(_converted, op))
    return dataclasses.replace(call, args=decode_arguments(call.schema, call.args))


def decode_arguments(schema: torch.FunctionSchema, args: Sequence[Any]) -> list[Any]:
    """Decode the dtypes, layouts and memory formats of a call by its schema."""
    tables = map(TYPE_CODES.of_argument, schema.arguments)
    return [table[arg] if table is not None and type(arg) is int else arg for table, arg in zip(tables, args, strict=False)]


def _converted(op: Builder, type_: str, arg: Any) -> Any:
    """Convert a Tensor to a number or a list of numbers if the schema takes that.

    Anything else stays as it is.
    """
    inner = type_.removeprefix("Optional[").removesuffix("]") if type_.startswith("Optional[") else type_
    element = inner.removeprefix("List[").removesuffix("]")
    if isinstance(arg, (list, tuple)):
        return [_converted(op, element, each) for each in arg] if element != inner else arg
    if not isinstance(arg, Tensor) or arg.scalar is not None or element not in _NUMBERS:
        return arg
    if element == inner:
        if arg.const is not None and arg.const.numel() == 1:
            return arg.const.item()
        return op.as_number(arg) if arg.const is None and arg.rank == 0 else arg
    if arg.const is not None:
        return arg.const.tolist() if arg.const.dim() == 1 else arg
    sizes = arg.shape
    if sizes is None or len(sizes) != 1 or not isinstance(sizes[0], int):
        return arg
    return [op.as_number(op.Gather(arg, index)) for index in range(sizes[0])]
