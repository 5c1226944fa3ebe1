"""Slices of an input that end at a size of another axis."""

from __future__ import annotations

import re

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.fx import Node

_NEW = re.compile(r"aten\.(new_\w+|\w+_like)\.")
"""Operators that take the shape of a tensor, and not its numbers."""


def ends_of_slices(program: ExportedProgram, *, static: bool) -> set[frozenset[sympy.Symbol]]:
    """Return the symbols that end slices of inputs, on static or on dynamic axes.

    A tensor that is computed from inputs counts too; a table, such as a parameter or a mask made in the forward, does not.
    """
    computed: set[Node] = set()
    found: set[frozenset[sympy.Symbol]] = set()
    given = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        tensors = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor)]
        if (node.op == "placeholder" and node.name in given) or (
            not computed.isdisjoint(tensors) and not _NEW.match(str(node.target))
        ):
            computed.add(node)
        if node.target is torch.ops.aten.slice.Tensor and node.args[0] in computed:
            axis, end = (node.args[1] if len(node.args) > 1 else 0), node.args[3] if len(node.args) > 3 else None
            if isinstance(end, Node) and isinstance(node.args[0].meta["val"].shape[axis], int) == static:
                found.add(frozenset(end.meta["val"].node.expr.free_symbols))
    return found
