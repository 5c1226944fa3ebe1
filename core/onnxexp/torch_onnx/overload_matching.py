"""What a symbolic gives for a torch operator's arguments, as that operator takes them.

A symbolic holds values of a graph; an operator's schema asks for numbers, lists of numbers, dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.builder.builder import Builder
from onnxexp.builder.tensor import Tensor
from onnxexp.torch_ops.schemas import NoOverload, chosen, takes
from onnxexp.torch_ops.type_codes import coded_arguments

__all__ = ["fitted", "overloads"]

_NUMBERS = ("int", "float", "bool", "number")


def overloads(full: str) -> list[torch.FunctionSchema]:
    """The schemas of an operator: of all its overloads, or of the one that the name has."""
    packet, _, overload = full.partition(".")
    found = torch._C._jit_get_schemas_for_operator(packet)
    return [
        each
        for each in found
        if (not overload or each.overload_name == overload) and not any(argument.is_out for argument in each.arguments)
    ]


def fitted(op: Builder, full: str, args: Sequence[Any]) -> tuple[torch.FunctionSchema, list[Any]]:
    """The overload that takes these arguments, as they are or else as it wants them, and the arguments for it.

    Raises NoOverload where none does.
    """
    try:
        schema, given = chosen(full, args), list(args)
    except NoOverload:
        for schema in overloads(full):
            given = [_coerced(op, str(formal.type), arg) for formal, arg in zip(schema.arguments, args, strict=False)]
            if len(args) <= len(schema.arguments) and takes(schema, given):
                break
        else:
            raise
    return schema, _counted(schema, given)


def _coerced(op: Builder, type_: str, arg: Any) -> Any:
    """A Tensor as the number or the list of numbers that is asked for; anything else as it is."""
    inner = type_.removeprefix("Optional[").removesuffix("]") if type_.startswith("Optional[") else type_
    element = inner.removeprefix("List[").removesuffix("]")
    if isinstance(arg, (list, tuple)):
        return [_coerced(op, element, each) for each in arg] if element != inner else arg
    if not isinstance(arg, Tensor) or arg.scalar is not None or element not in _NUMBERS:
        return arg
    if element == inner:
        if arg.const is not None and arg.const.numel() == 1:
            return arg.const.item()
        return _scalar(op, arg) if arg.const is None and arg.rank == 0 else arg
    if arg.const is not None:
        return arg.const.tolist() if arg.const.dim() == 1 else arg
    sizes = arg.shape
    if sizes is None or len(sizes) != 1 or not isinstance(sizes[0], int):
        return arg
    return [_scalar(op, op.Gather(arg, index)) for index in range(sizes[0])]


def _scalar(op: Builder, tensor: Tensor) -> Tensor:
    """A 0-d tensor that stands for a number of the program."""
    made = Tensor(op, tensor.value, tensor.dtype, ())
    made.scalar = bool if tensor.dtype == torch.bool else float if tensor.dtype.is_floating_point else int
    return made


def _counted(schema: torch.FunctionSchema, args: list[Any]) -> list[Any]:
    """dtypes, layouts and memory formats for their numbers."""
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    given = list(args)
    for index, table in coded_arguments(name):
        if index < len(given) and type(given[index]) is int:
            given[index] = table[given[index]]
    return given
