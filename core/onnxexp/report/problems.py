"""The messages about operators that stand in the way of an export: what, where, and the cure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch

from onnxexp.errors import LoweringError, OpsetError, UnsupportedOperators
from onnxexp.graph import Graph, Node

__all__ = ["Problem", "describe", "no_plugins", "skeleton", "unsupported"]

_LINES = 3
"""Source lines shown per operator; the count tells of the rest."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A node that could not be lowered: no reason where nobody knows its operator; `skeleton` where a symbolic would cure it."""

    node: Node
    reason: str = ""
    first_opset: int | None = None
    opset: bool = False
    skeleton: bool = False


def describe(node: Node, message: str, types: Sequence[str]) -> str:
    """One node's failure with its arguments and the user's line."""
    place = f"\n  at {node.where}" if str(node.where) else ""
    return f"{node.op}: {message}\n  called with ({', '.join(types)}){place}"


def no_plugins(graph: Graph) -> LoweringError:
    """No plugin is there at all: say what to install."""
    counts = Counter(node.op for node in graph.walk())
    return UnsupportedOperators(
        f"no plugin is selected, so none of the {len(counts)} operators of this model can be lowered; "
        "`pip install onnxexp-plugin-aten` brings torch's own operators",
        dict(counts),
    )


def unsupported(problems: Sequence[Problem]) -> LoweringError:
    """All problems of an export as one error."""
    grouped: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        grouped.setdefault((problem.node.op, problem.reason), []).append(problem)
    blocks = [
        _block(op, reason, found) for (op, reason), found in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    counts = dict(Counter(problem.node.op for problem in problems))
    names = f"{len(counts)} operator{'s' if len(counts) > 1 else ''}"
    if all(problem.opset for problem in problems):
        firsts = [problem.first_opset for problem in problems]
        first = None if None in firsts else max(opset for opset in firsts if opset is not None)
        cure = f"\nopset_version={first} can express all of it" if first else ""
        return OpsetError(f"the target opset cannot express {names} of this model:\n" + "\n".join(blocks) + cure, first)
    return UnsupportedOperators(f"{names} of this model cannot be lowered:\n" + "\n".join(blocks), counts)


def _block(op: str, reason: str, found: Sequence[Problem]) -> str:
    lines = [f"  {op} ({len(found)}x): {reason or 'no plugin lowers it and torch knows no decomposition'}"]
    places = list(dict.fromkeys(str(problem.node.where) for problem in found))
    lines += [f"    at {place}" for place in places[:_LINES] if place]
    if len(places) > _LINES:
        lines.append(f"    and {len(places) - _LINES} more places")
    if not reason or found[0].skeleton:
        lines.append("    write a symbolic for it:")
        lines += [f"      {line}".rstrip() for line in skeleton(op).splitlines()]
    return "\n".join(lines)


def skeleton(op: str) -> str:
    """The beginning of a symbolic for an operator, with the arguments of its torch schema."""
    namespace, _, name = op.partition("::")
    schemas = torch._C._jit_get_schemas_for_operator(op.partition(".")[0])
    overload = op.partition(".")[2]
    schema = next((schema for schema in schemas if schema.overload_name == overload), None)
    names = [argument.name + ("_" if argument.name == "from" else "") for argument in schema.arguments] if schema else ["x"]
    call = ", ".join(name for name in ["op", *names])
    text = str(schema).partition("::")[2] if schema else op
    return (
        f'{namespace} = onnxexp.SymbolicTable("{namespace}")\n\n'
        f'@{namespace}("{name}")\ndef {name.partition(".")[0]}({call}):\n    """{text}"""\n'
        f"    return op.Identity({names[0]})  # the ONNX operators that compute it\n\n"
        f"onnxexp.export(..., plugins=[{namespace}, *others])"
    )
