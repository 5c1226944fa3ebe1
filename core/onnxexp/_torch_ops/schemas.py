"""Bind calls to torch's operator schemas: one call, one node, in every frontend."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError
from onnxexp._neutral_graph import Node, ScalarType, TensorType, Value
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._torch_ops.result_types import result_types

T = TypeVar("T")
_PERMANENT = frozenset(["aten", "onnxexp", "prim"])


def full_name(schema: torch.FunctionSchema) -> str:
    """Return the full name of an overload: ``aten::add.Tensor``, ``aten::relu``."""
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


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


def schemas(name: str) -> list[torch.FunctionSchema]:
    """All schemas of an operator, or the one of an overload (``aten::add.Tensor``)."""
    packet, _, suffix = name.partition(".")
    found = torch._C._jit_get_schemas_for_operator(packet)
    return [each for each in found if not suffix or each.overload_name == suffix]


@dataclasses.dataclass(frozen=True)
class OverloadCall:
    """A call of the overload of a torch operator that takes its arguments.

    Attributes:
        schema: The overload's schema.
        args: The arguments by position, as the schema takes them; defaults may be left out.
    """

    schema: torch.FunctionSchema
    args: list[Any]

    @classmethod
    def of(cls, name: str, args: Sequence[Any], convert: Callable[[str, Any], Any] | None = None) -> OverloadCall:
        """Choose the overload that takes these Values, Tensors and Python constants.

        `name` is that of an operator or of one overload. Where no overload takes the arguments as they are, `convert(type, arg)`
        converts each to the type in a schema (``List[int]``), or returns it as it is.

        Raises LoweringError where no overload takes the arguments.
        """
        known = [each for each in schemas(name) if _takes(each, len(args))]
        for schema in known:
            if _all_fit(schema, args):
                return cls(schema, list(args))
        if convert is not None:
            for schema in known:
                converted = [convert(str(formal.type), arg) for formal, arg in zip(schema.arguments, args, strict=False)]
                if _all_fit(schema, converted):
                    return cls(schema, converted)
        overloads = "; ".join(map(str, schemas(name.partition(".")[0]))) or "torch has no such operator"
        raise LoweringError(f"{name} does not take ({', '.join(map(repr, args))}): {overloads}")

    @property
    def name(self) -> str:
        """The overload's full name, such as ``aten::add.Tensor``."""
        return full_name(self.schema)

    @property
    def bound(self) -> list[Any]:
        """Every argument in order, with the defaults filled in."""
        return bind(self.schema, self.args, {})

    @property
    def returns_list(self) -> bool:
        """Whether the operator returns a list of tensors."""
        return [str(result.type) for result in self.schema.returns] == ["List[Tensor]"]

    def result_types(self, fresh: Callable[[], SymbolicSize]) -> list[TensorType] | None:
        """Compute the result types, a list's elements one by one, or None if torch fails.

        `fresh()` names an unknown size.
        """
        return result_types(overload(self.name), self.bound, fresh)


def called(name: str, args: Sequence[Any], where: Node, fresh: Callable[[], SymbolicSize], outputs: int | None = None) -> Node:
    """Make the node of a call, with the first overload that takes its arguments.

    `fresh` names an unknown size. `outputs` is the number of tensors in the list that the operator returns; None: as many as
    torch returns.

    Raises LoweringError where torch has no such operator, where none takes the arguments, or for an unknown number of outputs.
    """
    call = OverloadCall.of(name, args)
    types = call.result_types(fresh)
    count: int | None = len(call.schema.returns)
    if call.returns_list:
        count = outputs if outputs is not None else None if types is None else len(types)
        if count is None:
            raise LoweringError(f"how many tensors {call.name} returns here is not known at export; pass outputs=")
    if types is None or len(types) != count:
        types = [TensorType(None, None)] * (count or 0)
    base = where.outputs[0].name if where.outputs else "out"
    return Node(call.name, call.bound, [Value(base, type_) for type_ in types], where=where.where)


def _takes(schema: torch.FunctionSchema, count: int) -> bool:
    """Return whether a call with so many positional arguments fits a schema."""
    formals = schema.arguments
    if count > len(formals) or any(argument.is_out for argument in formals):
        return False
    return all(argument.has_default_value() for argument in formals[count:])


def _all_fit(schema: torch.FunctionSchema, args: Sequence[Any]) -> bool:
    """Return whether the arguments may be of the types in a schema."""
    return all(_fits(str(argument.type), arg) for argument, arg in zip(schema.arguments, args, strict=False))


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
