"""ONNX operator schemas from `onnx.defs`, cached per operator version."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Set
from typing import Any

import onnx
import onnx_ir as ir

_RENAMED = {
    ("TopK", "k"): "K",
    ("Pad", "value"): "constant_value",
    ("BatchNormalization", "mean"): "input_mean",
    ("BatchNormalization", "var"): "input_var",
}
"""Inputs and attributes that were renamed between versions: (operator, old name) to new name."""
_OTHER_NAME = {**_RENAMED, **{(operator, new): old for (operator, old), new in _RENAMED.items()}}
_KINDS = {kind.value: kind for kind in ir.AttributeType}
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_NOT_DETERMINISTIC = frozenset(
    """
    Bernoulli Dropout If Loop Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike Scan SequenceMap
    """.split()  # noqa: SIM905
)
"""Random operators, and those that run any graph: what newer releases of onnx mark as not deterministic."""


@dataclasses.dataclass(slots=True, eq=False)
class Formal:
    """One formal input or output.

    `variable` is ``T`` or a type such as ``tensor(int64)``.
    """

    name: str
    variable: str
    types: Set[str]
    optional: bool
    variadic: bool
    homogeneous: bool


@dataclasses.dataclass(slots=True)
class Attribute:
    """One attribute, with `default` None if it has no default."""

    name: str
    type: ir.AttributeType
    required: bool
    default: Any

    def is_default(self, value: Any) -> bool:
        """Return whether a value equals the default, compared as float32 for floats.

        The float32 number of 0.01 is 0.009999999776.
        """
        if self.required or self.default is None or isinstance(value, str) != isinstance(self.default, str):
            return False
        if self.type is ir.AttributeType.FLOAT and isinstance(value, (int, float)):
            value = ctypes.c_float(value).value
        return bool(self.default == value)


@dataclasses.dataclass(slots=True, eq=False)
class Operator:
    """One version of an ONNX operator.

    Attributes:
        positions: The names of positional arguments: the inputs of the newest version, then the inputs of this version alone.
        results: The number of outputs of a call without `outputs`.
    """

    name: str
    domain: str
    since: int
    schema: onnx.defs.OpSchema = dataclasses.field(repr=False)
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, Attribute]
    positions: tuple[str, ...]
    results: int
    variadic: bool
    deterministic: bool
    _places: dict[str, int] = dataclasses.field(repr=False)

    def input_index(self, name: str) -> int | None:
        """Return the position of an input, by its name in any version."""
        index = self._places.get(name)
        return index if index is not None else self._places.get(_OTHER_NAME.get((self.name, name), ""))

    def attribute(self, name: str) -> Attribute | None:
        """Return an attribute, by its name in any version."""
        return self.attributes.get(name) or self.attributes.get(_OTHER_NAME.get((self.name, name), ""))

    def formals(self, count: int) -> tuple[Formal, ...]:
        """Return the formal inputs of at least `count` arguments.

        The last formal input, a variadic one, is repeated.
        """
        missing = count - len(self.inputs)
        return self.inputs + self.inputs[-1:] * missing if missing > 0 else self.inputs


@functools.lru_cache(maxsize=None)
def _read(schema: Any) -> Operator:
    name, domain = schema.name, schema.domain
    inputs, outputs = tuple(map(_formal, schema.inputs)), tuple(map(_formal, schema.outputs))
    places = {formal.name: index for index, formal in enumerate(inputs)}
    newest = [formal.name for formal in _all()[domain, name][-1].inputs]
    return Operator(
        name,
        domain,
        schema.since_version,
        schema,
        inputs,
        outputs,
        {each.name: _attribute(each) for each in schema.attributes.values()},
        (*newest, *[own for own in places if own not in newest and _OTHER_NAME.get((name, own)) not in newest]),
        max(1, sum(not (formal.optional or formal.variadic) for formal in outputs)),
        bool(inputs) and inputs[-1].variadic,
        name not in _NOT_DETERMINISTIC,
        places,
    )


def _formal(formal: Any) -> Formal:
    optional, variadic = formal.option == _OPTIONAL, formal.option == _VARIADIC
    return Formal(formal.name, formal.type_str, formal.types, optional, variadic, formal.is_homogeneous)


def _attribute(schema: Any) -> Attribute:
    default = None
    if schema.default_value.type != onnx.AttributeProto.UNDEFINED:
        default = _decoded(onnx.helper.get_attribute_value(schema.default_value))
    return Attribute(schema.name, _KINDS[int(schema.type)], schema.required, default)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


@functools.lru_cache(maxsize=None)
def _all() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    """List every version of every operator, the oldest first."""
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


@functools.lru_cache(maxsize=None)
def history(domain: str, name: str) -> tuple[Operator, ...]:
    """List every version of an operator, the oldest first.

    The tuple is empty for unknown operators.
    """
    return tuple(map(_read, _all().get((domain, name), ())))


@functools.lru_cache(maxsize=None)
def operator(domain: str, name: str, opset: int) -> Operator | None:
    """Return an operator's version at an opset, or None if missing or deprecated."""
    known = [schema for schema in _all().get((domain, name), ()) if schema.since_version <= opset]
    return _read(known[-1]) if known and not known[-1].deprecated else None


@functools.lru_cache(maxsize=None)
def ir_version(opset: int) -> int:
    """Return the lowest IR version for an opset, at least 4.

    From version 4 on, initializers need not be inputs.
    """
    return max(4, int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)], ignore_unknown=True)))
