"""Which of a call's arguments are inputs and which are attributes, at the opset that is asked for.

The rules, so that one call is right at every opset:

1. A keyword that is an attribute at this opset becomes one; one that is an input becomes an input.
2. An input that is still an attribute at this opset becomes that attribute; its value must be known at export.
3. A keyword that only another version knows is dropped where it equals that version's default, else `OpsetError`.
4. Anything else: `TypeError` with the operator's real inputs and attributes.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from onnxexp.errors import OpsetError
from onnxexp.schemas import Operator, history, operator
from onnxexp.values import Tensor

__all__ = ["bind", "find"]


def find(domain: str, name: str, opset: int) -> Operator:
    """The operator in force at `opset`. Raises OpsetError where another opset has it, AttributeError where none has."""
    found = operator(domain, name, opset)
    if found is not None:
        return found
    versions = history(domain, name)
    if not versions:
        raise AttributeError(f"ONNX has no operator {name} in the domain {domain or 'ai.onnx'!r}")
    later = [version.since for version in versions if version.since > opset and not version.deprecated]
    if later:
        raise OpsetError(f"ONNX has {name} from opset {later[0]} on; the target is opset {opset}", later[0])
    raise OpsetError(f"ONNX withdrew {name} in opset {versions[-1].since}; the target is opset {opset}")


def bind(spec: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], opset: int) -> tuple[list[Any], dict[str, Any]]:
    """Sort a call's arguments into the inputs, in the schema's order, and the attributes, by name.

    Raises:
        OpsetError: this opset's operator has no place for one of them; another version has.
        TypeError: no version has, or one is given twice or missing.
    """
    inputs: list[Any] = list(args if spec.variadic else args[: len(spec.inputs)])
    attributes: dict[str, Any] = {}
    named = dict(kwargs)
    for name, value in zip(_positions(spec)[len(inputs) :], args[len(inputs) :], strict=False):
        if name in named:
            raise TypeError(f"{spec.name} got {name} twice")
        named[name] = value
    if len(args) > max(len(inputs), len(_positions(spec))):
        raise TypeError(f"{spec.name} takes {_signature(spec)}; {len(args)} positional arguments were given")
    for name, value in named.items():
        if value is None:
            continue
        index, attribute = spec.input_index(name), spec.attribute(name)
        if index is not None:
            inputs.extend([None] * (index + 1 - len(inputs)))
            if inputs[index] is not None:
                raise TypeError(f"{spec.name} got {name} twice")
            inputs[index] = value
        elif attribute is not None:
            attributes[attribute.name] = _attribute_value(spec, name, value, opset)
        else:
            _elsewhere(spec, name, value, opset)
    while inputs and inputs[-1] is None:
        inputs.pop()
    missing = [formal.name for formal in spec.inputs[len(inputs) : spec.min_inputs] if not formal.optional]
    missing += [name for name, attribute in spec.attributes.items() if attribute.required and name not in attributes]
    if missing:
        raise TypeError(f"{spec.name} at opset {opset} also needs {', '.join(missing)}; it takes {_signature(spec)}")
    return inputs, attributes


@functools.lru_cache(maxsize=None)
def _positions(spec: Operator) -> tuple[str, ...]:
    """Names by position: the newest version tells what stands behind this version's own inputs."""
    own = [formal.name for formal in spec.inputs]
    newest = [formal.name for formal in history(spec.domain, spec.name)[-1].inputs]
    return tuple(own + newest[len(own) :])


def _attribute_value(spec: Operator, name: str, value: Any, opset: int) -> Any:
    values = value if isinstance(value, (list, tuple)) else [value]
    if all(not isinstance(element, Tensor) or element.const is not None for element in values):
        return value
    first = next((version.since for version in history(spec.domain, spec.name) if version.input_index(name) is not None), None)
    if first is None or first <= opset:
        raise TypeError(f"{name} is an attribute of {spec.name}: it cannot depend on a tensor that is known only at run time")
    raise OpsetError(
        f"{spec.name} takes {name} as an input from opset {first} on; at opset {opset} it must be known at export", first
    )


def _elsewhere(spec: Operator, name: str, value: Any, opset: int) -> None:
    """Rule 3 for an argument that this version does not know."""
    versions = history(spec.domain, spec.name)
    knowing = [version for version in versions if version.input_index(name) is not None or version.attribute(name)]
    if not knowing:
        _unknown(spec, name)
    for version in knowing:
        attribute = version.attribute(name)
        if attribute is not None and attribute.default is not None and attribute.default == value:
            return
    later = [version.since for version in knowing if version.since > opset]
    if later:
        raise OpsetError(f"{spec.name} knows {name} from opset {later[0]} on; the target is opset {opset}", later[0])
    raise OpsetError(f"{spec.name} lost {name} in opset {spec.since}; the target is opset {opset}")


def _unknown(spec: Operator, name: str) -> NoReturn:
    raise TypeError(f"{spec.name} has no input or attribute {name}; it takes {_signature(spec)}")


def _signature(spec: Operator) -> str:
    inputs = ", ".join(f"*{formal.name}" if formal.variadic else formal.name for formal in spec.inputs)
    attributes = ", ".join(sorted(spec.attributes))
    return f"the inputs ({inputs}) and the attributes ({attributes})"
