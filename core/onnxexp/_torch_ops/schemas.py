"""Bind calls to torch's operator schemas: one call, one node, in every frontend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError
from onnxexp._neutral_graph import Node, ScalarType, TensorType, Value
from onnxexp._torch_ops.result_types import result_types

T = TypeVar("T")
_PERMANENT = frozenset(["aten", "onnxexp", "prim"])


class NoOverload(LoweringError):
    """torch has no operator that takes these arguments."""


def full_name(op: torch._ops.OpOverload) -> str:
    """Return the full name: ``aten::add.Tensor``, ``aten::relu``."""
    name: str = op._schema.name
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def cache_by_operator(function: Callable[[str], T]) -> Callable[[str], T]:
    """Cache a function of an operator's full name, for operators that never change.

    A library may define an operator of another namespace again, with another schema.
    """
    cached = functools.cache(function)

    @functools.wraps(function)
    def look_up(name: str) -> T:
        return cached(name) if name.partition("::")[0] in _PERMANENT else function(name)

    return look_up


@cache_by_operator
def overload(name: str) -> torch._ops.OpOverload | None:
    """Return the torch operator of a full name; None if there is none.

    ``prim::If`` and Python's scalar arithmetic have none.
    """
    packet, _, suffix = name.partition(".")
    namespace, _, base = packet.partition("::")
    found = getattr(getattr(torch.ops, namespace), base, None)  # torch.ops resolves names on access
    if found is None or (suffix or "default") not in found.overloads():
        return None
    resolved: torch._ops.OpOverload = getattr(found, suffix or "default")
    return resolved


def bind(schema: torch.FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Bind a call to a schema: every argument in order, with the defaults filled in."""
    arguments = schema.arguments
    others = (kwargs.get(each.name, each.default_value) for each in arguments[len(args) :])
    return [*args[: len(arguments)], *others]


def called(name: str, args: Sequence[Any], where: Node, fresh: Callable[[], str], outputs: int | None = None) -> Node:
    """Make the node of a call, with the first overload that takes its arguments.

    `fresh` names an unknown size. `outputs` is the number of tensors in the list that the operator returns; None: as many as
    torch returns.

    Raises NoOverload where torch has no such operator, or none takes the arguments; LoweringError for an unknown
    number of outputs.
    """
    schema = choose_overload(name, args)
    packet = name.partition(".")[0]
    full = f"{packet}.{schema.overload_name}" if schema.overload_name else packet
    bound = bind(schema, args, {})
    types = result_types(overload(full), bound, fresh)
    count: int | None = len(schema.returns)
    if returns_list(schema):
        count = outputs if outputs is not None else None if types is None else len(types)
        if count is None:
            raise LoweringError(f"how many tensors {full} returns here is not known at export; pass outputs=")
    if types is None or len(types) != count:
        types = [TensorType(None, None)] * (count or 0)
    base = where.outputs[0].name if where.outputs else "out"
    return Node(full, bound, [Value(base, type_) for type_ in types], where=where.where)


def returns_list(schema: torch.FunctionSchema) -> bool:
    """Return whether the operator returns a list of tensors."""
    return [str(result.type) for result in schema.returns] == ["List[Tensor]"]


def schemas(name: str) -> list[torch.FunctionSchema]:
    """All schemas of an operator, or the one of an overload (``aten::add.Tensor``)."""
    packet, _, suffix = name.partition(".")
    found = torch._C._jit_get_schemas_for_operator(packet)
    return [each for each in found if not suffix or each.overload_name == suffix]


def choose_overload(name: str, args: Sequence[Any]) -> torch.FunctionSchema:
    """Choose the overload that takes these Values, Tensors and Python constants.

    Raises NoOverload where there is none.
    """
    schema = next((each for each in schemas(name) if accepts(each, args)), None)
    if schema is None:
        known = "; ".join(map(str, schemas(name.partition(".")[0]))) or "torch has no such operator"
        raise NoOverload(f"{name} does not take ({', '.join(map(repr, args))}): {known}")
    return schema


def accepts(schema: torch.FunctionSchema, args: Sequence[Any]) -> bool:
    """Return whether a call with positional arguments fits a schema."""
    formals = schema.arguments
    if len(args) > len(formals) or any(argument.is_out for argument in formals):
        return False
    if not all(argument.has_default_value() for argument in formals[len(args) :]):
        return False
    return all(_fits(str(argument.type), arg) for argument, arg in zip(formals, args, strict=False))


def _fits(type_: str, arg: Any) -> bool:
    """Return whether an argument may be of a type, as far as overloads differ in it."""
    if arg is None:
        return type_.startswith(("Optional", "NoneType"))
    inner = type_.removeprefix("Optional[").removesuffix("]") if type_.startswith("Optional[") else type_
    if isinstance(arg, (Value, Tensor)):
        scalar = isinstance(arg.type, ScalarType)
        return inner in (("number", "int", "float", "bool", "SymInt") if scalar else ("Tensor",))
    if isinstance(arg, (list, tuple)):
        return inner.startswith("List[") or inner == "Device"
    if isinstance(arg, bool):
        return inner in ("bool", "number")
    if isinstance(arg, int):
        return inner in ("int", "number", "SymInt", "float") or (inner == "bool" and arg in (0, 1))
    if isinstance(arg, float):
        return inner in ("float", "number")
    return not inner.startswith(("Tensor", "List[")) if not isinstance(arg, torch.Tensor) else inner == "Tensor"
