"""Axes that `squeeze` and `chunk` compare with 1, and slices up to another's size."""

from __future__ import annotations

import re
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree


def compared_with_one(node: torch.fx.Node) -> list[torch.SymInt]:
    """Return the sizes that squeeze or chunk compares with 1 and that others need."""
    if is_returned_squeeze(node):
        return []
    sizes = possibly_one(node)
    if sizes and str(node.target).startswith("aten.squeeze.") and _is_only_broadcast(node):
        shape = node.all_input_nodes[0].meta["val"].shape
        sizes.pop(next(axis for axis, size in enumerate(shape) if isinstance(size, torch.SymInt) or size != 1), None)
    return list(sizes.values())


def is_returned_squeeze(node: torch.fx.Node) -> bool:
    """Return whether a node squeezes, and the program only returns its result."""
    return str(node.target).startswith("aten.squeeze.") and all(user.op == "output" for user in node.users)


def possibly_one(node: torch.fx.Node) -> dict[int, torch.SymInt]:
    """Return the symbolic sizes that a node compares with 1, by axis."""
    name, args = str(node.target), node.args[1:]
    if name.startswith("aten.squeeze"):
        axes: Any = args[0] if args else None
    elif name.startswith("aten.chunk") and len(node.meta["val"]) > 1:
        axes = args[1] if len(args) > 1 else 0
    else:
        return {}
    shape = node.all_input_nodes[0].meta["val"].shape
    listed = range(len(shape)) if axes is None else [axis % len(shape) for axis in pytree.tree_leaves(axes) if shape]
    return {axis: shape[axis] for axis in listed if isinstance(shape[axis], torch.SymInt)}


def _is_only_broadcast(node: torch.fx.Node) -> bool:
    """Return whether a tensor is used only pointwise, with tensors of a higher rank.

    A first axis of size 1 broadcasts there as if it were removed. Another tensor of the same rank may be squeezed as well.
    """
    if node.meta["val"].dim() < 2:  # without axes it would take part in type promotion in another way
        return False
    for user in node.users:
        pointwise = isinstance(user.target, torch._ops.OpOverload) and torch.Tag.pointwise in user.target.tags
        if not pointwise or user.target._schema.is_mutable:  # type: ignore[union-attr]
            return False
        others = [each.meta["val"] for each in user.all_input_nodes if each is not node]
        ranks = [other.dim() for other in others if isinstance(other, torch.Tensor)]
        if max(ranks, default=-1) <= node.meta["val"].dim() and not _is_only_broadcast(user):
            return False
    return True


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
