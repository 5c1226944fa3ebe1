"""Resolve an operator call against the schema of the target opset.

A call that does not fit is resolved at the operator's other versions, so that an `OpsetError` names an opset that takes the whole
call. Its arguments are split into inputs and attributes, so that one call is right at every opset:

1. A keyword that is an attribute at this opset becomes one; one that is an input becomes an input.
2. An input that is still an attribute at this opset becomes that attribute; its value must be known at export.
3. A keyword that exists only in another version is dropped where it equals that version's default, else it is refused.
4. Anything else: `TypeError` with the operator's real inputs and attributes.

Positions and names are those of the newest version.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import onnx_ir as ir
import torch

from onnxexp._builder import attributes as attrs
from onnxexp._builder import operands
from onnxexp._builder.onnx_schemas import Operator, history, operator
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError, OpsetError
from onnxexp._version import MAX_OPSET, MIN_OPSET


class OperatorCall(NamedTuple):
    """A call resolved at one opset.

    Attributes:
        spec: The operator.
        opset: The version of its domain.
        inputs: Tensors, Python values and None, in the schema's order.
        dtypes: The dtypes of the schema's type variables.
        attributes: The attributes that differ from their defaults.
        results: The dtype of each output, None where only inference can find it.
    """

    spec: Operator
    opset: int
    inputs: list[Any]
    dtypes: dict[str, torch.dtype]
    attributes: dict[str, ir.Attr]
    results: list[torch.dtype | None]


def resolve_call(
    domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None
) -> OperatorCall:
    """Resolve a call at `opset`, the version of its domain.

    Raises:
        OpsetError: Only another opset can express the call.
        LoweringError: No opset can express the call, or only a version of a custom domain that is not imported.
        TypeError: The call does not fit the operator.
        AttributeError: The operator does not exist.
    """
    resolve_at = functools.partial(_resolve_at, domain, name, args, kwargs, outputs)
    try:
        return resolve_at(opset)
    except (LoweringError, TypeError) as error:
        fitting = [version for version in _other_versions(domain, name, opset) if _fits(resolve_at, version)]
        if not fitting:
            raise
        raise _error_with_opset(error, domain, name, opset, fitting) from None


def _other_versions(domain: str, name: str, opset: int) -> list[int]:
    """List the versions of an operator that a model may import in place of `opset`."""
    versions = [version.since for version in history(domain, name) if not version.schema.deprecated]
    return [version for version in versions if version != opset and (domain or _last_opset(name, version) >= MIN_OPSET)]


def _error_with_opset(error: Exception, domain: str, name: str, opset: int, fitting: list[int]) -> LoweringError:
    """Return an error that names a version out of `fitting`, the next later one first."""
    later = [version for version in fitting if version > opset]
    if domain:
        version = later[0] if later else fitting[-1]
        return LoweringError(f"{error}; version {version} of {domain} can: custom_opsets={{{domain!r}: {version}}}")
    if later:
        return OpsetError(f"{error}; opset {later[0]} can express this call", later[0])
    return OpsetError(f"{error}; opset {_last_opset(name, fitting[-1])} is the last that can express this call")


def check_graph_types(name: str, opset: int, tensors: Sequence[Tensor]) -> None:
    """Raise OpsetError or LoweringError for types that If, Loop or Scan cannot take."""
    for tensor in tensors:
        type_ = operands.type_of(tensor)
        versions = [
            version.since
            for version in history("", name)
            if any(type_ in formal.types for formal in version.inputs + version.outputs)
        ]
        if type_ is None or (versions and versions[0] <= opset):
            continue
        message = f"ONNX's {name} does not take {type_} at opset {opset}"
        if not versions:
            raise LoweringError(message)
        raise OpsetError(f"{message}; opset {versions[0]} can express this call", versions[0])


def _last_opset(name: str, since: int) -> int:
    """Return the last opset of the default domain's version that begins at `since`."""
    return min((version.since - 1 for version in history("", name) if version.since > since), default=MAX_OPSET)


def _fits(resolve_at: Callable[[int], OperatorCall], opset: int) -> bool:
    """Return whether a call can be resolved at an opset."""
    try:
        resolve_at(opset)
    except (LoweringError, TypeError):
        return False
    return True


def _resolve_at(
    domain: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None, opset: int
) -> OperatorCall:
    """Resolve a call at `opset` without a look at other versions."""
    spec = find_operator(domain, name, opset)
    inputs, named = split_arguments(spec, args, kwargs, opset)
    count = spec.results if outputs is None else outputs
    if count > len(spec.outputs) and not spec.outputs[-1].variadic:
        raise LoweringError(f"{name} has {len(spec.outputs)} outputs at opset {opset}, not {count}")
    if outputs is not None and "num_outputs" in spec.attributes and len(inputs) == 1:
        named.setdefault("num_outputs", outputs)  # Split requires it from opset 18 on
    dtypes = operands.bind_type_variables(spec, inputs, opset)
    attributes = attrs.encode(spec, named)
    results = operands.result_dtypes(spec, dtypes, attributes, count, opset)
    return OperatorCall(spec, opset, inputs, dtypes, attributes, results)


_EMPTY = {("Resize", "roi"), ("Resize", "scales")}
"""Inputs that some version requires, where an empty tensor means that the input is not given."""


def find_operator(domain: str, name: str, opset: int) -> Operator:
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
