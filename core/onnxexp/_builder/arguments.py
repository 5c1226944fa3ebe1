"""Split a call's arguments into inputs and attributes.

One call is right at every opset:

1. A keyword that is an attribute at this opset becomes one; one that is an input becomes an input.
2. An input that is still an attribute at this opset becomes that attribute; its value must be known at export.
3. A keyword that exists only in another version is dropped where it equals that version's default, else it is refused.
4. Anything else: `TypeError` with the operator's real inputs and attributes.

Positions and names are those of the newest version. `onnxexp._builder.resolve_call` finds the opset at which a refused call is
right.
"""

from __future__ import annotations

from typing import Any

from onnxexp._builder.onnx_schemas import Operator, history, operator
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError

_EMPTY = {("Resize", "roi"), ("Resize", "scales")}
"""Inputs that some version requires, where an empty tensor means that the input is not given."""


def find(domain: str, name: str, opset: int) -> Operator:
    """Return the operator at `opset`.

    Raises LoweringError where it exists only at other opsets, and AttributeError where it does not exist.
    """
    if (found := operator(domain, name, opset)) is not None:
        return found
    if not history(domain, name):
        raise AttributeError(f"ONNX has no operator {name} in the domain {domain or 'ai.onnx'!r}")
    raise LoweringError(f"ONNX has no {name} at opset {opset}")


def split_arguments(
    spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], opset: int
) -> tuple[list[Any], dict[str, Any]]:
    """Split a call's arguments into inputs in schema order and attributes by name.

    Raises:
        LoweringError: An argument does not fit the operator of this opset.
        TypeError: An argument fits no version, is missing or is given twice.
    """
    inputs: list[Any] = list(args) if spec.variadic else []
    attributes: dict[str, Any] = {}
    for name, value in _named_arguments(spec, args, kwargs).items():
        index, attribute = spec.input_index(name), spec.attribute(name)
        if index is not None:
            inputs.extend([None] * (index + 1 - len(inputs)))
            inputs[index] = value
        elif attribute is not None:
            attributes[attribute.name] = _attribute_value(spec, name, value, opset)
        else:
            _check_other_versions(spec, name, value, opset)
    while inputs and inputs[-1] is None:
        inputs.pop()
    for index, formal in enumerate(spec.inputs[: len(inputs)]):
        if inputs[index] is None and not formal.optional and (spec.name, formal.name) in _EMPTY:
            inputs[index] = []
    if missing := _missing(spec, inputs, attributes):
        raise TypeError(f"{spec.name} at opset {opset} also needs {', '.join(missing)}; it takes {_signature(spec)}")
    return inputs, attributes


def _named_arguments(spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Map names to arguments, without those that are None and without variadic inputs."""
    positional = () if spec.variadic else args
    if len(positional) > len(spec.positions):
        raise TypeError(f"{spec.name} takes {_signature(spec)}; {len(args)} positional arguments were given")
    named = {name: value for name, value in zip(spec.positions, positional, strict=False) if value is not None}
    for name, value in kwargs.items():
        if value is None:
            continue
        if name in named:
            raise TypeError(f"{spec.name} got {name} twice")
        named[name] = value
    return named


def _missing(spec: Operator, inputs: list[Any], attributes: dict[str, Any]) -> list[str]:
    """Name the required inputs and attributes that the call leaves out."""
    given = {formal.name for formal, value in zip(spec.inputs, inputs, strict=False) if value is not None}
    required = [formal.name for formal in spec.inputs[: spec.schema.min_input] if not (formal.optional or formal.variadic)]
    missing = [name for name in required if name not in given]
    return missing + [name for name, each in spec.attributes.items() if each.required and name not in attributes]


def _attribute_value(spec: Operator, name: str, value: Any, opset: int) -> Any:
    values = value if isinstance(value, (list, tuple)) else [value]
    if all(not isinstance(element, Tensor) or element.const is not None for element in values):
        return value
    raise LoweringError(f"{name} is an attribute of {spec.name} at opset {opset}: it must be known at export")


def _check_other_versions(spec: Operator, name: str, value: Any, opset: int) -> None:
    """Apply rule 3: refuse another version's argument unless it is the default."""
    versions = history(spec.domain, spec.name)
    knowing = [version for version in versions if version.input_index(name) is not None or version.attribute(name)]
    if not knowing:
        raise TypeError(f"{spec.name} has no input or attribute {name}; it takes {_signature(spec)}")
    for version in knowing:
        if (attribute := version.attribute(name)) is not None and attribute.is_default(value):
            return
    raise LoweringError(f"{spec.name} has no {name} at opset {opset}")


def _signature(spec: Operator) -> str:
    inputs = ", ".join(f"*{formal.name}" if formal.variadic else formal.name for formal in spec.inputs)
    attributes = ", ".join(sorted(spec.attributes))
    return f"the inputs ({inputs}) and the attributes ({attributes})"
