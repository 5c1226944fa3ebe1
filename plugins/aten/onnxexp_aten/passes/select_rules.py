"""Selections of an axis that a view split off a larger one."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp.rewriting import Rewriter
from onnxexp_aten.passes.matching import producer
from onnxexp_aten.passes.view_rules import known_dims, perm_of, reshaped, transposed, unsqueezed
from onnxexp_aten.support.axis_products import partition

_MOST = 4
"""Selections that become one Split: queries, keys and values, or the gates of an LSTM."""


def selected(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Split queries, keys and values of one product by one Split, before other views."""
    x, index = node.inputs[0], _position(node)
    if x is None or index is None:
        return _whole_axis(rewriter, node)
    if not _only_selected(x):
        return None
    axis = node.attributes.get_int("axis", 0) % len(known_dims(x))
    moved = producer(x, "Transpose")
    if moved is not None and moved.inputs[0] is not None:
        perm = perm_of(moved)
        part = _part(rewriter, moved.inputs[0], perm[axis], index)
        if part is not None:
            return transposed(rewriter, part, [place - (place > perm[axis]) for place in perm if place != perm[axis]])
    return _part(rewriter, x, axis, index)


def _position(node: ir.Node) -> int | None:
    """Return the constant position that a Gather selects, else None."""
    given = node.inputs[1]
    positions = Rewriter.constant_ints(node, 1, "indices") if given is not None and Rewriter.dims(given) == () else None
    return positions[0] if positions and positions[0] >= 0 else None


def _whole_axis(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Unsqueeze instead of a Gather of the positions 0, 1, 2, ... of a whole axis."""
    x, index = node.inputs[0], node.inputs[1]
    sizes, after = rewriter.dims(x), rewriter.dims(index)
    if x is None or index is None or sizes is None or after is None or not _counts(index):
        return None
    axis = node.attributes.get_int("axis", 0) % len(sizes)
    if [size for size in after if size != 1] != [sizes[axis]]:
        return None
    return unsqueezed(rewriter, x, [axis + place for place, size in enumerate(after) if size == 1])


def _counts(index: ir.Value) -> bool:
    """Return whether an index is 0, 1, 2, ... along one axis."""
    node = index.producer()
    while node is not None and not node.domain and node.op_type in ("Unsqueeze", "Reshape", "Squeeze"):
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    if node is None or node.domain or node.op_type != "Range":
        return False
    return Rewriter.constant_ints(node, 0, "start") == [0] and Rewriter.constant_ints(node, 2, "delta") == [1]


def _only_selected(x: ir.Value) -> bool:
    """Return whether all users of a value select one position."""
    return not x.is_graph_output() and all(
        user.op_type == "Gather" and not user.domain and user.inputs[0] is x and _position(user) is not None
        for user, _ in x.uses()
    )


def _part(rewriter: Rewriter, x: ir.Value, axis: int, index: int) -> ir.Value | None:
    """Select from an axis that a Reshape split off the front of a larger one.

    Returns one output of a Split of the larger axis, in the shape of the selection, or None where no such Reshape is found.
    """
    node = producer(x, "Reshape")
    if node is None or node.inputs[0] is None:
        return None
    source, sizes, after = node.inputs[0], known_dims(node.inputs[0]), known_dims(x)
    groups = partition(after, sizes)
    place = None if groups is None else next((place for place, group in enumerate(groups) if group[0] == axis), None)
    count = after[axis]
    if groups is None or place is None or len(groups[place]) < 2 or not isinstance(count, int) or count > _MOST:
        return None
    whole, perm = sizes[place], list(range(len(sizes)))
    if not isinstance(whole, int):
        return None
    moved = producer(source, "Transpose")
    if moved is not None and moved.inputs[0] is not None and len(source.consumers()) == 1:
        source, perm = moved.inputs[0], perm_of(moved)
    shape = list(known_dims(source))
    shape[perm[place]] = whole // count
    part = transposed(rewriter, rewriter.split(source, count, perm[place], shape)[index], perm)
    return reshaped(rewriter, part, [*after[:axis], *after[axis + 1 :]])
