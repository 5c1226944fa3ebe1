"""Messages about operators that cannot be lowered, with problem, place and fix."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from onnxexp._errors import LoweringError, OpsetError, UnsupportedOperators
from onnxexp._neutral_graph import Graph, Node
from onnxexp._plugins.discovery import PluginStatus, plugins_for
from onnxexp._torch_ops.schemas import schemas

_LINES = 3
"""Source lines shown per operator."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A node that could not be lowered.

    Attributes:
        node: The node.
        reason: The reason, or "" where no plugin has a symbolic for it.
        first_opset: The lowest opset that can express it.
        opset: Whether the target opset is the reason.
        skeleton: Whether the message shows the beginning of a symbolic for the operator, as a fix.
        error: The error of the symbolic that failed.
    """

    node: Node
    reason: str = ""
    first_opset: int | None = None
    opset: bool = False
    skeleton: bool = False
    error: LoweringError | None = None


def describe(node: Node, message: str, types: Sequence[str]) -> str:
    """Describe the failure of one node, with its arguments and the user's line."""
    place = f"\n  at {node.where}" if str(node.where) else ""
    return f"{node.op}: {message}\n  called with ({', '.join(types)}){place}"


def no_plugins(graph: Graph, off: Sequence[PluginStatus]) -> LoweringError:
    """Make the error for an export without plugins, with the packages to install."""
    counts = Counter(node.op for node in graph.walk())
    message = f"no plugin is selected, so none of the {len(counts)} operators of this model can be lowered"
    return UnsupportedOperators("\n".join([message, *plugins_for(counts, off)]), dict(counts))


def unsupported(problems: Sequence[Problem], off: Sequence[PluginStatus] = ()) -> LoweringError:
    """Make one error of all problems.

    `off` are the plugins that are not selected.
    """
    if len(problems) == 1 and problems[0].error is not None:
        return problems[0].error
    grouped: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        grouped.setdefault((problem.node.op, problem.reason), []).append(problem)
    most_frequent_first = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    blocks = [_block(op, reason, alike) for (op, reason), alike in most_frequent_first]
    counts = dict(Counter(problem.node.op for problem in problems))
    names = f"{len(counts)} operator{'s' if len(counts) > 1 else ''}"
    if all(problem.opset for problem in problems):
        firsts = [problem.first_opset for problem in problems]
        first = None if None in firsts else max(opset for opset in firsts if opset is not None)
        fix = f"\nopset_version={first} can express all of it" if first else ""
        return OpsetError(f"the target opset cannot express {names} of this model:\n" + "\n".join(blocks) + fix, first)
    message = f"{names} of this model cannot be lowered:"
    if all(problem.error is not None for problem in problems):
        return LoweringError("\n".join([message, *blocks]))
    failed = [status for status in off if status.state != "off"]  # more likely the cause than an operator that nobody has written
    switched_off = [status for status in off if status.state == "off"]
    lines = [message, *(f"  {line}" for line in plugins_for((), failed)), *blocks, *plugins_for(counts, switched_off)]
    return UnsupportedOperators("\n".join(lines), counts)


def _block(op: str, reason: str, problems: Sequence[Problem]) -> str:
    """Describe the nodes of one operator that fail for one reason."""
    lines = [f"  {op} ({len(problems)}x): {reason or 'no plugin lowers it and torch has no decomposition'}"]
    places = list(dict.fromkeys(str(problem.node.where) for problem in problems))
    lines += [f"    at {place}" for place in places[:_LINES] if place]
    if len(places) > _LINES:
        lines.append(f"    and {len(places) - _LINES} more places")
    if not reason or problems[0].skeleton:
        lines.append("    write a symbolic for it:")
        lines += [f"      {line}".rstrip() for line in skeleton(op).splitlines()]
    return "\n".join(lines)


def skeleton(op: str) -> str:
    """Write the beginning of a symbolic, with the arguments of the torch schema."""
    namespace, _, name = op.partition("::")
    function, _, overload = name.partition(".")
    schema = next((schema for schema in schemas(op) if schema.overload_name == overload), None)
    docstring = str(schema).partition("::")[2] if schema else op
    names = [_parameter(argument.name) for argument in schema.arguments] if schema else ["x"]
    return "\n".join(
        [
            f'{namespace} = onnxexp.SymbolicTable("{namespace}")',
            "",
            f'@{namespace}("{name}")',
            f"def {function}({', '.join(['op', *names])}):",
            f'    """{docstring}"""',
            f"    return {f'op.Identity({names[0]})' if names else 'op.constant(0.0)'}  # the ONNX operators that compute it",
            "",
            f"onnxexp.export(..., plugins=[{namespace}, ...])",
        ]
    )


def _parameter(argument: str) -> str:
    """Return a Python parameter's name for an argument; ``from`` is a keyword."""
    return "from_" if argument == "from" else argument
