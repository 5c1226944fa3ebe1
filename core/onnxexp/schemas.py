"""ONNX operator schemas in the form in which the builder asks for them: looked up once per operator and opset.

Source: `onnx.defs`. What an operator is asked for is read out of its schema then: of most versions that is nothing.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
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
_FORMER = {(operator, new): old for (operator, old), new in _RENAMED.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Formal:
    """One formal input or output: `variable` is a type variable (``T``) or a type (``tensor(int64)``)."""

    name: str
    variable: str
    types: frozenset[str]
    optional: bool
    variadic: bool
    homogeneous: bool

    @property
    def is_sequence(self) -> bool:
        return all(type_.startswith("seq(") for type_ in self.types)


@dataclasses.dataclass(frozen=True, eq=False)
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
        if self.default is None or isinstance(value, str) != isinstance(self.default, str):
            return False
        if self.type is ir.AttributeType.FLOAT and isinstance(value, (int, float)):
            value = ctypes.c_float(value).value
        return bool(self.default == value)


@dataclasses.dataclass(frozen=True, eq=False)
class Operator:
    """One version of one ONNX operator."""

    name: str
    domain: str
    since: int
    schema: onnx.defs.OpSchema = dataclasses.field(repr=False)

    @functools.cached_property
    def inputs(self) -> tuple[Formal, ...]:
        return tuple(map(_formal, self.schema.inputs))

    @functools.cached_property
    def outputs(self) -> tuple[Formal, ...]:
        return tuple(map(_formal, self.schema.outputs))

    @functools.cached_property
    def attributes(self) -> dict[str, Attribute]:
        return {name: _attribute(attribute) for name, attribute in self.schema.attributes.items()}

    @functools.cached_property
    def min_inputs(self) -> int:
        return self.schema.min_input

    @functools.cached_property
    def deterministic(self) -> bool:
        determinism = self.schema.node_determinism  # type: ignore[attr-defined] # onnx's stubs lack it
        return bool(determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic)

    @property
    def deprecated(self) -> bool:
        return self.schema.deprecated

    @functools.cache  # noqa: B019 - the operators live as long as the process
    def input_index(self, name: str) -> int | None:
        """The position of the input of this name, under the name that any version gave it."""
        names = self._names(name)
        return next((index for index, formal in enumerate(self.inputs) if formal.name in names), None)

    @functools.cache  # noqa: B019
    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, under the name that any version gave it."""
        return next((self.attributes[known] for known in self._names(name) if known in self.attributes), None)

    @functools.cache  # noqa: B019
    def formals(self, count: int) -> tuple[Formal, ...]:
        """The formal input of each of so many given ones; the last one is repeated."""
        return tuple(self.inputs[min(index, len(self.inputs) - 1)] for index in range(count))

    def _names(self, name: str) -> tuple[str, ...]:
        key = (self.name, name)
        return (name, *(table[key] for table in (_RENAMED, _FORMER) if key in table))

    @functools.cached_property
    def variadic(self) -> bool:
        return bool(self.inputs) and self.inputs[-1].variadic

    @functools.cached_property
    def results(self) -> int:
        """How many outputs a call has that does not say it."""
        return max(1, sum(not (formal.optional or formal.variadic) for formal in self.outputs))


def _formal(formal: Any) -> Formal:
    options = onnx.defs.OpSchema.FormalParameterOption
    return Formal(
        formal.name,
        formal.type_str,
        frozenset(formal.types),
        formal.option == options.Optional,
        formal.option == options.Variadic,
        formal.is_homogeneous,
    )


def _attribute(attribute: Any) -> Attribute:
    return Attribute(attribute.name, ir.AttributeType(int(attribute.type)), attribute.required, attribute)


@functools.lru_cache(maxsize=None)
def _all() -> dict[tuple[str, str], tuple[onnx.defs.OpSchema, ...]]:
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return {key: tuple(sorted(schemas, key=lambda schema: int(schema.since_version))) for key, schemas in found.items()}


@functools.lru_cache(maxsize=None)
def history(domain: str, name: str) -> tuple[Operator, ...]:
    """Every version of an operator, the oldest first; empty where onnx knows none of that name."""
    schemas = _all().get((domain, name), ())
    return tuple(Operator(schema.name, schema.domain, schema.since_version, schema) for schema in schemas)


@functools.lru_cache(maxsize=None)
def operator(domain: str, name: str, opset: int) -> Operator | None:
    """The version of an operator that is in force at an opset; None where there is none or it is deprecated by then."""
    known = [version for version in history(domain, name) if version.since <= opset]
    return known[-1] if known and not known[-1].deprecated else None


def names(domain: str = "") -> list[str]:
    """The names of all operators of a domain, sorted."""
    return sorted(name for of, name in _all() if of == domain)


@functools.lru_cache(maxsize=None)
def ir_version(opset: int) -> int:
    """The lowest ONNX IR version that may carry this opset of the default domain (4 at least: initializers are no inputs)."""
    return max(4, int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)], ignore_unknown=True)))
