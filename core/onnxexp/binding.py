"""Which of a call's arguments are inputs and which are attributes, at the opset that is asked for.

The rules, so that one call is right at every opset:

1. A keyword that is an attribute at this opset becomes one; one that is an input becomes an input.
2. An input that is still an attribute at this opset becomes that attribute; its value must be known at export.
3. A keyword that only another version knows is dropped where it equals that version's default, else it is refused.
4. Anything else: `TypeError` with the operator's real inputs and attributes.

Positions and names are those of the newest version. What is refused here may be right at another opset: `onnxexp.calls` says.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NoReturn

from onnxexp.errors import LoweringError
from onnxexp.schemas import Operator, history, operator
from onnxexp.values import Tensor

__all__ = ["bind", "find", "placed"]

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


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """Where a call's arguments go: positions among all of them, first those by position, then those by name.

    Attributes:
        inputs: One for each input, `_ABSENT` or `_NOTHING` where none is given for it.
        attributes: The attribute's name, the argument's, its position.
        elsewhere: Names and positions of those that only another version may know.
        missing: What has to be given and is not.
    """

    inputs: tuple[int, ...]
    attributes: tuple[tuple[str, str, int], ...]
    elsewhere: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]


_ABSENT, _NOTHING = -2, -1
"""The positions of what follows a call's own arguments: None, and the empty list that stands for what is required."""


def bind(
    spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], opset: int
) -> tuple[list[Any], dict[str, Any], tuple[int, ...]]:
    """Sort a call's arguments into the inputs, in the schema's order, and the attributes, by name; and the inputs' places.

    The places are those of `placed`.

    Raises:
        LoweringError: this opset's operator has no place for one of them.
        TypeError: no version has, or one is given twice or missing.
    """
    values = (*args, *kwargs.values(), None, [])
    plan = _plan(spec, len(args), tuple(kwargs), tuple([value is not None for value in values]))
    attributes = {name: _attribute_value(spec, said, values[place], opset) for name, said, place in plan.attributes}
    for name, place in plan.elsewhere:
        _elsewhere(spec, name, values[place], opset)
    if plan.missing:
        raise TypeError(f"{spec.name} at opset {opset} also needs {', '.join(plan.missing)}; it takes {_signature(spec)}")
    return placed(args, kwargs, plan.inputs), attributes, plan.inputs


def placed(args: tuple[Any, ...], kwargs: dict[str, Any], places: tuple[int, ...]) -> list[Any]:
    """The inputs of a call: what is at these places among all of its arguments, those by position first."""
    values = (*args, *kwargs.values(), None, [])
    return [values[place] for place in places]


@functools.lru_cache(maxsize=4096)
def _plan(spec: Operator, count: int, names: tuple[str, ...], given: tuple[bool, ...]) -> _Plan:
    """The plan of every call with as many arguments by position, these by name, and the same ones given."""
    positions = () if spec.variadic else spec.positions[:count]
    if len(positions) < count and not spec.variadic:
        raise TypeError(f"{spec.name} takes {_signature(spec)}; {count} positional arguments were given")
    inputs = list(range(count)) if spec.variadic else []
    attributes: list[tuple[str, str, int]] = []
    elsewhere: list[tuple[str, int]] = []
    for place, name in (*enumerate(positions), *enumerate(names, count)):
        if not given[place]:
            continue
        if place >= count and name in positions and given[positions.index(name)]:
            raise TypeError(f"{spec.name} got {name} twice")
        index = spec.input_index(name)
        if index is not None:
            inputs.extend([_ABSENT] * (index + 1 - len(inputs)))
            inputs[index] = place
        elif (attribute := spec.attribute(name)) is not None:
            attributes.append((attribute.name, name, place))
        else:
            elsewhere.append((name, place))
    while inputs and not given[inputs[-1]]:
        inputs.pop()
    missing = _missing(spec, inputs, given)
    if spec.attributes:
        said = [name for name, _, _ in attributes]
        missing += [name for name, attribute in spec.attributes.items() if attribute.required and name not in said]
    return _Plan(tuple(inputs), tuple(attributes), tuple(elsewhere), tuple(missing))


def _missing(spec: Operator, inputs: list[int], given: tuple[bool, ...]) -> list[str]:
    """The inputs that have to be given and are not; those that may be empty instead are noted as such."""
    missing = []
    for index, formal in enumerate(spec.inputs):
        among = index < len(inputs)
        if formal.optional or formal.variadic or (among and given[inputs[index]]):
            continue
        if among and (spec.name, formal.name) in _EMPTY:
            inputs[index] = _NOTHING
        elif index < spec.min_inputs:
            missing.append(formal.name)
    return missing


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
