"""Which of a call's arguments are inputs and which are attributes, at the opset that is asked for.

The rules, so that one call is right at every opset:

1. A keyword that is an attribute at this opset becomes one; one that is an input becomes an input.
2. An input that is still an attribute at this opset becomes that attribute; its value must be known at export.
3. A keyword that only another version knows is dropped where it equals that version's default, else it is refused.
4. Anything else: `TypeError` with the operator's real inputs and attributes.

Positions and names are those of the newest version. What is refused here may be right at another opset: `onnxexp.calls` says.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from onnxexp.errors import LoweringError
from onnxexp.schemas import Operator, history, operator
from onnxexp.values import Tensor

__all__ = ["bind", "find"]

_EMPTY = {("Resize", "roi"), ("Resize", "scales")}
"""Inputs that some version requires, and for which an empty tensor says that they are not given."""


def find(domain: str, name: str, opset: int) -> Operator:
    """The operator in force at `opset`. Raises LoweringError where only another opset has it, AttributeError where none has."""
    found = operator(domain, name, opset)
    if found is not None:
        return found
    if not history(domain, name):
        raise AttributeError(f"ONNX has no operator {name} in the domain {domain or 'ai.onnx'!r}")
    raise LoweringError(f"ONNX has no {name} at opset {opset}")


def bind(spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], opset: int) -> tuple[list[Any], dict[str, Any]]:
    """Sort a call's arguments into the inputs, in the schema's order, and the attributes, by name.

    Raises:
        LoweringError: this opset's operator has no place for one of them.
        TypeError: no version has, or one is given twice or missing.
    """
    inputs: list[Any] = list(args) if spec.variadic else []
    attributes: dict[str, Any] = {}
    for name, value in _named(spec, args, kwargs):
        if value is None:
            continue
        index, attribute = spec.input_index(name), spec.attribute(name)
        if index is not None:
            inputs.extend([None] * (index + 1 - len(inputs)))
            inputs[index] = value
        elif attribute is not None:
            attributes[attribute.name] = _attribute_value(spec, name, value, opset)
        else:
            _elsewhere(spec, name, value, opset)
    while inputs and inputs[-1] is None:
        inputs.pop()
    for index, formal in enumerate(spec.inputs[: len(inputs)]):
        if inputs[index] is None and (spec.name, formal.name) in _EMPTY and not formal.optional:
            inputs[index] = []
    absent = [
        formal for index, formal in enumerate(spec.inputs[: spec.min_inputs]) if index >= len(inputs) or inputs[index] is None
    ]
    missing = [formal.name for formal in absent if not (formal.optional or formal.variadic)]
    missing += [name for name, attribute in spec.attributes.items() if attribute.required and name not in attributes]
    if missing:
        raise TypeError(f"{spec.name} at opset {opset} also needs {', '.join(missing)}; it takes {_signature(spec)}")
    return inputs, attributes


def _named(spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every argument that is not variadic, by name."""
    if spec.variadic:
        return list(kwargs.items())
    positions = _positions(spec)
    if len(args) > len(positions):
        raise TypeError(f"{spec.name} takes {_signature(spec)}; {len(args)} positional arguments were given")
    named = list(zip(positions, args, strict=False))
    for name, value in kwargs.items():
        if name in positions[: len(args)] and args[positions.index(name)] is not None and value is not None:
            raise TypeError(f"{spec.name} got {name} twice")
        named.append((name, value))
    return named


@functools.lru_cache(maxsize=None)
def _positions(spec: Operator) -> tuple[str, ...]:
    """Names by position: those of the newest version, then what only this one has."""
    newest = history(spec.domain, spec.name)[-1]
    only_here = [formal.name for formal in spec.inputs if newest.input_index(formal.name) is None]
    return (*(formal.name for formal in newest.inputs), *only_here)


def _attribute_value(spec: Operator, name: str, value: Any, opset: int) -> Any:
    values = value if isinstance(value, (list, tuple)) else [value]
    if all(not isinstance(element, Tensor) or element.const is not None for element in values):
        return value
    raise LoweringError(f"{name} is an attribute of {spec.name} at opset {opset}: it must be known at export")


def _elsewhere(spec: Operator, name: str, value: Any, opset: int) -> None:
    """Rule 3 for an argument that this version does not know."""
    versions = history(spec.domain, spec.name)
    knowing = [version for version in versions if version.input_index(name) is not None or version.attribute(name)]
    if not knowing:
        _unknown(spec, name)
    for version in knowing:
        attribute = version.attribute(name)
        if attribute is not None and attribute.is_default(value):
            return
    raise LoweringError(f"{spec.name} knows no {name} at opset {opset}")


def _unknown(spec: Operator, name: str) -> NoReturn:
    raise TypeError(f"{spec.name} has no input or attribute {name}; it takes {_signature(spec)}")


def _signature(spec: Operator) -> str:
    inputs = ", ".join(f"*{formal.name}" if formal.variadic else formal.name for formal in spec.inputs)
    attributes = ", ".join(sorted(spec.attributes))
    return f"the inputs ({inputs}) and the attributes ({attributes})"
