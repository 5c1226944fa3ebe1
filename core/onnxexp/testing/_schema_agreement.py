"""Compare a symbolic's signature and docstring with torch's schema."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp._decompose.fake_values import SCALAR_OPS
from onnxexp._suggest import nearest
from onnxexp._torch_ops.schemas import cache_by_operator, full_name
from onnxexp._torch_ops.schemas import schemas as torch_schemas

_HEAD = re.compile(r"((?P<namespace>\w+)::)?(?P<name>\w+)(\.(?P<overload>\w+))?\(")
_RESULT = re.compile(r"\s*->\s*(\((?:[^()]|\([^()]*\))*\)|\w+(?:\([^()]*\))?(?:\[\d*\])?\??)")
_BY_NAME = re.compile(r"\bstr(\[\d*\])? dim1?\b")
_REST = re.compile(r"\s*,?\s*\.\.\.\s*\)")


@cache_by_operator
def schemas(op: str) -> tuple[torch.FunctionSchema, ...]:
    """Return torch's schemas of an operator, or of the overload that `op` names."""
    namespace, _, base = op.partition(".")[0].partition("::")
    getattr(getattr(torch.ops, namespace), base, None)  # some namespaces register at the first access
    return tuple({schema.overload_name: schema for schema in torch_schemas(op)}.values())


def unknown(op: str) -> str:
    """Describe the problem with an operator's name.

    Returns "" if torch defines it or a capture emits it for Python numbers.
    """
    if schemas(op) or op in SCALAR_OPS.values():
        return ""
    known = {full_name(schema) for schema in torch._C._jit_get_all_schemas()}
    return f"torch has no such operator{nearest(op, known)}; import the library that registers it before the table is checked"


def _required_schemas(op: str) -> Sequence[torch.FunctionSchema]:
    """Return the schemas, without writes, that an entry must accept.

    An entry for a whole name need not accept overloads that exist only in TorchScript's interpreter (``aten::log.int_int``), nor
    those by the names of dimensions, which torch 2.13 no longer has.
    """
    found = [schema for schema in schemas(op) if not schema.is_mutable and not _BY_NAME.search(str(schema))]
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
    """Describe the problem for each schema with an unsuitable number of arguments.

    Overloads in `hidden` are skipped, since they have entries of their own.
    """
    parameters = _parameters(function)
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    most = None if len(named) < len(parameters) else len(named)
    least = sum(each.default is each.empty for each in named)
    return [
        f"takes {_count(least, most)} after op, torch's {schema} has {len(schema.arguments)}"
        for schema in _required_schemas(op)
        if full_name(schema) not in hidden
        and not least <= len(schema.arguments) <= (len(schema.arguments) if most is None else most)
    ]


def _count(least: int, most: int | None) -> str:
    text = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    return f"{text} argument{'' if text == '1' else 's'}"


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the positional parameters after `op`."""
    found = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    positional = [each for each in found if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)]
    return positional if positional and positional[0].kind is inspect.Parameter.VAR_POSITIONAL else positional[1:]


def _names(function: Callable[..., Any], schema: torch.FunctionSchema) -> str:
    """Describe the first mismatch between a parameter's name and the schema.

    Returns "" if all names agree. Names after ``*`` are free.
    """
    for parameter, argument in zip(_parameters(function), schema.arguments, strict=False):
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        expected = argument.name + ("_" if keyword.iskeyword(argument.name) else "")
        if parameter.name != expected:
            return f"calls the argument {argument.name!r} of {schema.name} {parameter.name!r}; name the parameter {expected!r}"
    return ""


# The docstring


def docstring(function: Callable[..., Any], ops: Sequence[str]) -> str:
    """Describe the problem with a docstring, or return "".

    The docstring must begin with the schema of one of the operators. The parameters must have the names in that schema.
    """
    text = inspect.getdoc(function) or ""
    example = next((str(schema).partition("::")[2] for op in ops for schema in _required_schemas(op)), ops[0])
    parsed, matching = None, []
    for namespace in dict.fromkeys(op.partition("::")[0] for op in ops):  # optional in the docstring
        parsed = _parse(text, namespace)
        if isinstance(parsed, tuple):
            matching = [each for op in ops for each in schemas(op) if full_name(each) == full_name(parsed[0])]
        if matching:
            break
    if parsed is None:
        return f"its docstring must begin with the torch schema, such as {example!r}; it begins with {text[:60]!r}"
    if isinstance(parsed, str):
        return f"torch cannot parse the schema at the beginning of its docstring: {parsed}"
    schema, partial = parsed
    if not matching:
        return f"its docstring begins with the schema of {full_name(schema)}, and it is registered for {', '.join(ops[:4])}"
    difference = _difference(schema, matching[0], partial)
    if difference:
        return f"its docstring {difference}; torch has {matching[0]}"
    return _names(function, matching[0])


def _parse(text: str, namespace: str) -> tuple[torch.FunctionSchema, bool] | str | None:
    """Parse the schema at the beginning of a text.

    Returns the schema and whether ``...`` replaces its last arguments. Returns torch's error message for a malformed schema, and
    None without a schema.
    """
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
    """Return the index of the parenthesis that closes the first one, or 0."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return position
    return 0


def _difference(documented: torch.FunctionSchema, real: torch.FunctionSchema, partial: bool) -> str:
    """Describe the difference between a documented and the real schema.

    int equals SymInt, and result names are optional.
    """
    if len(documented.arguments) > len(real.arguments) or (len(documented.arguments) < len(real.arguments) and not partial):
        return f"lists {len(documented.arguments)} arguments"
    for one, other in zip(documented.arguments, real.arguments, strict=False):
        if _argument(one) != _argument(other):
            return f"lists {_argument_text(one)} where the argument is {_argument_text(other)}"
    if [str(each.type) for each in documented.returns] != [str(each.type) for each in real.returns]:
        return "lists other results"
    return ""


def _argument(argument: Any) -> tuple[Any, ...]:
    return argument.name, str(argument.type), argument.kwarg_only, argument.has_default_value(), argument.default_value


def _argument_text(argument: Any) -> str:
    default = f"={argument.default_value}" if argument.has_default_value() else ""
    return f"{argument.type} {argument.name}{default}" + (" (after the *)" if argument.kwarg_only else "")
