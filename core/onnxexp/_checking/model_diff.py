"""The changes between two exports, module by module."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxexp._model.model_text import node_text
from onnxexp._model.printable_text import one_line
from onnxexp._model.type_text import type_text

_VALUE = re.compile(r"%[^\s:,()\[\]{}]+")


@dataclasses.dataclass(frozen=True)
class ModuleDiff:
    """The nodes of one module that only one of the models has, as text.

    Attributes:
        scope: The module's path; "" for nodes outside of all modules.
        lines: Each begins with "-" (only in the first model) or "+" (only in the second).
    """

    scope: str
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ModelDiff:
    """The changes between two models.

    Attributes:
        header: Changes of opsets, inputs, outputs, plugins and restrictions.
        modules: The modules whose nodes changed, in the order of the graph.
        weights: Changes of initializers.
    """

    header: tuple[str, ...]
    modules: tuple[ModuleDiff, ...]
    weights: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.header or self.modules or self.weights)


def diff_models(one: ir.Model, other: ir.Model) -> ModelDiff:
    """Compare two models by the texts of their nodes.

    The names of values and nodes make no difference, but the order of nodes in a module does.
    """
    before, after = _by_module(one), _by_module(other)
    modules = []
    for scope in dict.fromkeys([*before, *after]):
        lines = tuple(_lines(before.get(scope, []), after.get(scope, [])))
        if lines:
            modules.append(ModuleDiff(one_line(scope), lines))
    return ModelDiff(tuple(map(one_line, _header(one, other))), tuple(modules), tuple(map(one_line, _weights(one, other))))


def _by_module(model: ir.Model) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in model.graph:
        found.setdefault(node.metadata_props.get("onnxexp.scope", ""), []).append(_text(node))
    for function in model.functions.values():
        title = f"function {function.domain}.{function.name}"
        found[title] = [_text(node) for node in function]
    return found


def _text(node: ir.Node) -> str:
    return "\n".join(map(one_line, node_text(node, 0)))


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, [*map(_nameless, before)], [*map(_nameless, after)], autojunk=False)
    for kind, first, end, other_first, other_end in matcher.get_opcodes():
        if kind != "equal":
            yield from (f"- {text}" for text in before[first:end])
            yield from (f"+ {text}" for text in after[other_first:other_end])


def _nameless(text: str) -> str:
    """Strip the names of values and the source line from a node's text."""
    return _VALUE.sub("%", re.sub(r"  # .*", "", text))


def _header(one: ir.Model, other: ir.Model) -> Iterator[str]:
    for title, before, after in (
        ("IR version", str(one.ir_version), str(other.ir_version)),
        ("opsets", _opsets(one), _opsets(other)),
        ("inputs", _declared(one.graph.inputs), _declared(other.graph.inputs)),
        ("outputs", _declared(one.graph.outputs), _declared(other.graph.outputs)),
        ("nodes", str(len(one.graph)), str(len(other.graph))),
    ):
        if before != after:
            yield f"{title}: {before} -> {after}"
    for key in dict.fromkeys([*one.metadata_props, *other.metadata_props]):
        before, after = one.metadata_props.get(key, "nothing"), other.metadata_props.get(key, "nothing")
        if before != after:
            yield f"{key}: {before} -> {after}"


def _opsets(model: ir.Model) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opset_imports.items()))


def _declared(values: Sequence[ir.Value]) -> str:
    return ", ".join(f"{value.name}: {type_text(value)}" for value in values) or "none"


def _weights(one: ir.Model, other: ir.Model) -> Iterator[str]:
    before, after = one.graph.initializers, other.graph.initializers
    yield from (f"- {name}: {type_text(before[name])}" for name in before if name not in after)
    yield from (f"+ {name}: {type_text(after[name])}" for name in after if name not in before)
    for name in before:
        if name in after and (change := _change(before[name], after[name])):
            yield f"{name}: {change}"


def _change(one: ir.Value, other: ir.Value) -> str:
    first, second = one.const_value, other.const_value
    if first is None or second is None:
        return ""
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return f"{type_text(one)} -> {type_text(other)}"
    return "" if first.tobytes() == second.tobytes() else f"other values ({type_text(one)})"
