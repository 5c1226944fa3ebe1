"""Does a symbolic agree with torch's schema of the operator that it is registered for?"""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp.capture.torch_export.fake_values import SCALAR_OPS
from onnxexp.suggest import nearest

__all__ = ["arity", "docstring", "schemas", "unknown"]

_HEAD = re.compile(r"((?P<namespace>\w+)::)?(?P<name>\w+)(\.(?P<overload>\w+))?\(")
_RESULT = re.compile(r"\s*->\s*(\((?:[^()]|\([^()]*\))*\)|\w+(?:\([^()]*\))?(?:\[\d*\])?\??)")
_REST = re.compile(r"\s*,?\s*\.\.\.\s*\)")


@functools.lru_cache(maxsize=None)
def schemas(op: str) -> tuple[torch.FunctionSchema, ...]:
    """torch's schemas of an operator: of every overload, or where `op` names one (``aten::add.Tensor``), of that."""
    name, _, overload = op.partition(".")
    namespace, _, base = name.partition("::")
    getattr(getattr(torch.ops, namespace), base, None)  # some namespaces are registered when they are first looked at
    found = {schema.overload_name: schema for schema in torch._C._jit_get_schemas_for_operator(name)}
    return tuple(found.values()) if not overload else tuple(each for each in found.values() if each.overload_name == overload)


def unknown(op: str) -> str:
    """What is wrong with an operator's name, "" where torch (or capture itself, for Python's numbers) knows it."""
    if schemas(op) or op in SCALAR_OPS.values():
        return ""
    known = {_full(schema) for schema in torch._C._jit_get_all_schemas()}
    return f"torch has no such operator{nearest(op, known)}; import what registers it before the table is checked"


def _full(schema: torch.FunctionSchema) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _served(op: str) -> Sequence[torch.FunctionSchema]:
    """The schemas that an entry must take: those that a captured graph can hold, which write into none of their arguments.

    An entry for a whole name also meets overloads that only TorchScript's own interpreter knows (``aten::log.int_int``); it
    need not take them.
    """
    found = [schema for schema in schemas(op) if not schema.is_mutable]
    dispatched = [schema for schema in found if _is_dispatched(schema)]
    return (dispatched or found) if "." not in op else schemas(op)


def _is_dispatched(schema: torch.FunctionSchema) -> bool:
    try:
        torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    except RuntimeError:
        return False
    return True


# The function's parameters


def arity(function: Callable[..., Any], op: str, hidden: Sequence[str]) -> list[str]:
    """Which schemas of an operator the function cannot be called with, but for overloads that have entries of their own."""
    parameters = _parameters(function)
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    most = None if len(named) < len(parameters) else len(named)
    least = sum(each.default is each.empty for each in named)
    return [
        f"takes {_count(least, most)} after op, torch's {schema} gives {len(schema.arguments)}"
        for schema in _served(op)
        if _full(schema) not in hidden and not least <= len(schema.arguments) <= (len(schema.arguments) if most is None else most)
    ]


def _count(least: int, most: int | None) -> str:
    text = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    return f"{text} argument{'' if text == '1' else 's'}"


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those after `op` that arguments are passed to by position."""
    found = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    positional = [each for each in found if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)]
    return positional if positional and positional[0].kind is inspect.Parameter.VAR_POSITIONAL else positional[1:]


def _names(function: Callable[..., Any], schema: torch.FunctionSchema) -> str:
    """Which parameter is called otherwise than the schema's argument, "" where none is. The names behind a ``*`` are free."""
    for parameter, argument in zip(_parameters(function), schema.arguments, strict=False):
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        wanted = argument.name + ("_" if keyword.iskeyword(argument.name) else "")
        if parameter.name != wanted:
            return f"calls the argument {argument.name!r} of {schema.name} {parameter.name!r}; name the parameter {wanted!r}"
    return ""


# The docstring


def docstring(function: Callable[..., Any], ops: Sequence[str]) -> str:
    """What is wrong with a docstring that has to begin with the schema of one of the operators, "" where nothing is.

    The parameters must have that schema's names.
    """
    text = inspect.getdoc(function) or ""
    example = next((str(schema).partition("::")[2] for op in ops for schema in _served(op)), ops[0])
    told, meant = None, []
    for namespace in dict.fromkeys(op.partition("::")[0] for op in ops):  # the docstring may leave it out
        told = _read(text, namespace)
        if isinstance(told, tuple):
            meant = [each for op in ops for each in schemas(op) if _full(each) == _full(told[0])]
        if meant:
            break
    if told is None:
        return f"its docstring must begin with the torch schema, such as {example!r}; it begins with {text[:60]!r}"
    if isinstance(told, str):
        return f"torch cannot read the schema that its docstring begins with: {told}"
    schema, partial = told
    if not meant:
        return f"its docstring begins with the schema of {_full(schema)}, and it is registered for {', '.join(ops[:4])}"
    difference = _difference(schema, meant[0], partial)
    if difference:
        return f"its docstring {difference}; torch has {meant[0]}"
    return _names(function, meant[0])


def _read(text: str, namespace: str) -> tuple[torch.FunctionSchema, bool] | str | None:
    """The schema that a text begins with and whether ``...`` stands for its last arguments; torch's complaint; None."""
    flat = " ".join(text.split())
    head, closing = _HEAD.match(flat), _closing(flat)
    result = _RESULT.match(flat, closing + 1) if head is not None and closing else None
    if head is None or result is None:
        return None
    called = flat[: closing + 1]
    arguments = _REST.sub(")", called).replace("(, ", "(")
    name = "" if head["namespace"] else f"{namespace}::"
    try:
        return torch._C.parse_schema(f"{name}{arguments} -> {result[1]}"), arguments != called
    except RuntimeError as error:
        return " ".join(str(error).split())


def _closing(text: str) -> int:
    """Where the first parenthesis is closed, 0 where it is not."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return position
    return 0


def _difference(told: torch.FunctionSchema, real: torch.FunctionSchema, partial: bool) -> str:
    """Sizes may be written as int or SymInt, and the names of results left out."""
    if len(told.arguments) > len(real.arguments) or (len(told.arguments) < len(real.arguments) and not partial):
        return f"gives {len(told.arguments)} arguments"
    for one, other in zip(told.arguments, real.arguments, strict=False):
        if _argument(one) != _argument(other):
            return f"gives {_shown(one)} where the argument is {_shown(other)}"
    if [str(each.type) for each in told.returns] != [str(each.type) for each in real.returns]:
        return "gives other results"
    return ""


def _argument(argument: Any) -> tuple[Any, ...]:
    return argument.name, str(argument.type), argument.kwarg_only, argument.has_default_value(), argument.default_value


def _shown(argument: Any) -> str:
    default = f"={argument.default_value}" if argument.has_default_value() else ""
    return f"{argument.type} {argument.name}{default}" + (" (after the *)" if argument.kwarg_only else "")
