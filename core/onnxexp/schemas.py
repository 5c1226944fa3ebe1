"""ONNX operator schemas in the form in which the builder asks for them: looked up once per operator and opset.

Source: `onnx.defs`. Of most versions nothing is ever asked, and a version that is asked for is read as a whole.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Sequence, Set
from typing import Any

import onnx
import onnx_ir as ir

__all__ = ["Attribute", "Formal", "Operator", "history", "ir_version", "names", "operator"]

_RENAMED = {
    ("TopK", "k"): "K",
    ("Pad", "value"): "constant_value",
    ("BatchNormalization", "mean"): "input_mean",
    ("BatchNormalization", "var"): "input_var",
}
"""What changed its name from one version to another: (operator, the old name) to the new one. The rest kept their names."""
_OTHER_NAME = {**_RENAMED, **{(operator, new): old for (operator, old), new in _RENAMED.items()}}
_KINDS = {kind.value: kind for kind in ir.AttributeType}
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_RANDOM = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic


@dataclasses.dataclass(slots=True, eq=False)
class Formal:
    """One formal input or output: `variable` is a type variable (``T``) or a type (``tensor(int64)``)."""

    name: str
    variable: str
    types: Set[str]
    optional: bool
    variadic: bool
    homogeneous: bool

    @property
    def is_sequence(self) -> bool:
        return all(type_.startswith("seq(") for type_ in self.types)


@dataclasses.dataclass(eq=False)
class Attribute:
    name: str
    type: ir.AttributeType
    required: bool
    schema: Any = dataclasses.field(repr=False)

    @functools.cached_property
    def default(self) -> Any:
        """None where there is none."""
        default = self.schema.default_value
        if default.type == onnx.AttributeProto.UNDEFINED:
            return None
        value = onnx.helper.get_attribute_value(default)
        if self.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
            return [each.decode() if isinstance(each, bytes) else each for each in value]
        return value.decode() if isinstance(value, bytes) else value

    def is_default(self, value: Any) -> bool:
        """Whether a value is the default, which schemas hold as float32: their 0.01 is 0.009999999776."""
        if self.required or self.default is None or isinstance(value, str) != isinstance(self.default, str):
            return False
        if self.type is ir.AttributeType.FLOAT and isinstance(value, (int, float)):
            value = ctypes.c_float(value).value
        return bool(self.default == value)


@dataclasses.dataclass(slots=True, eq=False)
class Operator:
    """One version of one ONNX operator, read in one go.

    Attributes:
        positions: The names of the arguments by position: the inputs of the newest version, then those that only this one has.
        min_inputs: How many have to be given.
        results: How many outputs a call has that does not say it.
    """

    name: str
    domain: str
    since: int
    schema: onnx.defs.OpSchema = dataclasses.field(repr=False)
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, Attribute]
    positions: tuple[str, ...]
    min_inputs: int
    results: int
    variadic: bool
    deterministic: bool
    _places: dict[str, int] = dataclasses.field(repr=False)

    @property
    def deprecated(self) -> bool:
        return self.schema.deprecated

    def input_index(self, name: str) -> int | None:
        """The position of the input of this name, under the name that any version gave it."""
        index = self._places.get(name)
        return index if index is not None else self._places.get(_OTHER_NAME.get((self.name, name), ""))

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, under the name that any version gave it."""
        return self.attributes.get(name) or self.attributes.get(_OTHER_NAME.get((self.name, name), ""))

    def formals(self, count: int) -> tuple[Formal, ...]:
        """The formal input of each of so many given ones, and maybe more; the last one is repeated."""
        missing = count - len(self.inputs)
        return self.inputs + self.inputs[-1:] * missing if missing > 0 else self.inputs


@functools.lru_cache(maxsize=None)
def _read(schema: Any) -> Operator:
    name, domain = schema.name, schema.domain
    types: dict[str, Set[str]] = {}
    inputs, outputs = _formals(schema.inputs, types), _formals(schema.outputs, types)
    places = {formal.name: index for index, formal in enumerate(inputs)}
    last = _all()[domain, name][-1][1]
    newest = [*places] if last is schema else [formal.name for formal in last.inputs]
    return Operator(
        name,
        domain,
        schema.since_version,
        schema,
        inputs,
        outputs,
        {each.name: Attribute(each.name, _KINDS[int(each.type)], each.required, each) for each in schema.attributes.values()},
        (*newest, *[own for own in places if own not in newest and _OTHER_NAME.get((name, own)) not in newest]),
        schema.min_input,
        max(1, sum([not (formal.optional or formal.variadic) for formal in outputs])),
        bool(inputs) and inputs[-1].variadic,
        schema.node_determinism != _RANDOM,
        places,
    )


def _formals(formals: Sequence[Any], types: dict[str, Set[str]]) -> tuple[Formal, ...]:
    """`types` gathers those of each type variable: they are read out once for all that have it."""
    made = []
    for formal in formals:
        variable, option = formal.type_str, formal.option
        if variable not in types:
            types[variable] = formal.types
        optional, variadic = option == _OPTIONAL, option == _VARIADIC
        made.append(Formal(formal.name, variable, types[variable], optional, variadic, formal.is_homogeneous))
    return tuple(made)


@functools.lru_cache(maxsize=None)
def _all() -> dict[tuple[str, str], list[tuple[int, onnx.defs.OpSchema]]]:
    """Every version of every operator with the opset at which it begins, the oldest first."""
    found: dict[tuple[str, str], list[tuple[int, onnx.defs.OpSchema]]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append((schema.since_version, schema))
    for versions in found.values():
        versions.sort(key=lambda version: version[0])
    return found


@functools.lru_cache(maxsize=None)
def history(domain: str, name: str) -> tuple[Operator, ...]:
    """Every version of an operator, the oldest first; empty where onnx knows none of that name."""
    return tuple([_read(schema) for _, schema in _all().get((domain, name), ())])


@functools.lru_cache(maxsize=None)
def operator(domain: str, name: str, opset: int) -> Operator | None:
    """The version of an operator that is in force at an opset; None where there is none or it is deprecated by then."""
    known = [schema for since, schema in _all().get((domain, name), ()) if since <= opset]
    return _read(known[-1]) if known and not known[-1].deprecated else None


def names(domain: str = "") -> list[str]:
    """The names of all operators of a domain, sorted."""
    return sorted(name for of, name in _all() if of == domain)


@functools.lru_cache(maxsize=None)
def ir_version(opset: int) -> int:
    """The lowest ONNX IR version that may carry this opset of the default domain (4 at least: initializers are no inputs)."""
    return max(4, int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)], ignore_unknown=True)))
