"""Compose chains of Transpose, Reshape, Squeeze, Unsqueeze and Slice."""

from __future__ import annotations

import math
from types import MappingProxyType

import onnx_ir as ir

from onnxexp.graph import Dim
from onnxexp.rewriting import RewritePass, Rewriter, TorchTensor
from onnxexp_aten.passes.matching import only_used_by, producer, source_of
from onnxexp_aten.passes.view_rules import (
    known_dims,
    perm_of,
    reshaped,
    reshaped_by,
    sliced,
    squeezed_by,
    transposed,
    unsqueezed,
    unsqueezed_by,
)
from onnxexp_aten.support.axis_products import partition

_RESHAPE = frozenset({"Reshape"})


def product_before_transpose(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Move a Transpose of rows behind a product, where the next view can absorb it."""
    moved = producer(node.inputs[0], "Transpose")
    sizes, columns = rewriter.dims(node.outputs[0]), rewriter.dims(node.inputs[1])
    if moved is None or sizes is None or len(sizes) < 3 or not all(map(_is_linear, moved.outputs[0].consumers())):
        return None
    perm = perm_of(moved)
    if perm[-1] != len(perm) - 1 or columns is None:
        return None
    before = [*known_dims(moved.inputs[0])[:-1], columns[-1]]
    return transposed(rewriter, rewriter.one("MatMul", [moved.inputs[0], node.inputs[1]], sizes=before), perm)


def _is_linear(node: ir.Node) -> bool:
    """Return whether a node multiplies rows by a constant matrix."""
    weight = node.inputs[1] if node.op_type == "MatMul" and not node.domain else None
    return weight is not None and weight.const_value is not None and weight.shape is not None and len(weight.shape) == 2


def bias_before_transpose(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Move the Transpose of a product's rows behind the bias too."""
    for index in (0, 1):
        moved, bias = producer(node.inputs[index], "Transpose"), node.inputs[1 - index]
        product = None if moved is None else producer(moved.inputs[0], "MatMul")
        if moved is None or product is None or bias is None or bias.const_value is None or len(rewriter.dims(bias) or ()) != 1:
            continue
        perm = perm_of(moved)
        if perm[-1] == len(perm) - 1 and len(moved.outputs[0].consumers()) == 1 and not moved.outputs[0].is_graph_output():
            operands = [moved.inputs[0], bias] if index == 0 else [bias, moved.inputs[0]]
            return transposed(rewriter, rewriter.one("Add", operands, sizes=known_dims(moved.inputs[0])), perm)
    return None


def gemm_of_transposes(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Turn the transposition of a Gemm's operand into an attribute."""
    inputs, attributes = list(node.inputs), {name: each.value for name, each in node.attributes.items()}
    for index, name in enumerate(("transA", "transB")):
        moved = producer(inputs[index], "Transpose")
        if moved is not None:
            inputs[index] = moved.inputs[0]
            attributes[name] = 1 - node.attributes.get_int(name, 0)
    if inputs == list(node.inputs):
        return None
    given = {name: value for name, value in attributes.items() if value}
    return rewriter.one("Gemm", inputs, given, rewriter.dims(node.outputs[0]))


def rows_of_linear(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Drop the Reshape before and after a linear layer over several axes of rows.

    The Gemm becomes a product of any rank and a sum.
    """
    gemm = producer(node.inputs[0], "Gemm")
    rows = None if gemm is None else producer(gemm.inputs[0], "Reshape")
    if gemm is None or rows is None or not only_used_by(gemm.outputs[0], _RESHAPE) or not _plain(gemm):
        return None
    source, flat = rows.inputs[0], rewriter.dims(gemm.inputs[0])
    before = rewriter.dims(source)
    groups = None if before is None or flat is None else partition(before, flat)
    if source is None or before is None or flat is None or groups is None or len(groups[0]) < 2 or not isinstance(flat[1], int):
        return None
    columns = rewriter.dims(gemm.outputs[0])
    if columns is None:
        return None
    lead: list[Dim] = [before[axis] for axis in groups[0]]
    unflattened = reshaped(rewriter, source, [*lead, flat[1]])
    if unflattened is not source and known_dims(node.outputs[0]) != (*lead, columns[1]):
        return None  # neither Reshape would go away, and a Gemm would be two nodes
    weight = gemm.inputs[1] if not gemm.attributes.get_int("transB", 0) else _transposed_weight(rewriter, gemm)
    if weight is None:
        return None
    total = _with_bias(rewriter, unflattened, weight, gemm.inputs[2], columns[1])
    target = rewriter.constant_ints(node, 1, "shape")
    given = node.inputs[1] if target is not None and 0 not in target else None
    return reshaped(rewriter, total, known_dims(node.outputs[0]), given)


def _with_bias(rewriter: Rewriter, rows: ir.Value, weight: ir.Value, bias: ir.Value | None, columns: Dim) -> ir.Value:
    """Emit the product and the sum, before a Transpose of the rows."""
    moved = producer(rows, "Transpose")
    perm = None if moved is None else perm_of(moved)
    if moved is not None and perm is not None and perm[-1] == len(perm) - 1 and only_used_by(rows, _RESHAPE):
        return transposed(rewriter, _with_bias(rewriter, source_of(moved), weight, bias, columns), perm)
    sizes = [*known_dims(rows)[:-1], columns]
    return rewriter.one("Add", [rewriter.one("MatMul", [rows, weight], sizes=sizes), bias], sizes=sizes)


def _plain(gemm: ir.Node) -> bool:
    """Return whether a Gemm is the product of untransposed rows plus a bias vector."""
    factors = (gemm.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    plain = all(math.isclose(factor, 1.0, rel_tol=0) for factor in factors) and not gemm.attributes.get_int("transA", 0)
    return plain and len(gemm.inputs) == 3 and len(Rewriter.dims(gemm.inputs[2]) or ()) == 1


def _transposed_weight(rewriter: Rewriter, gemm: ir.Node) -> ir.Value | None:
    """Return the weight as MatMul takes it, or None where another use needs a copy."""
    weight = gemm.inputs[1]
    contents = None if weight is None else weight.const_value
    if weight is None or not isinstance(contents, TorchTensor) or len(weight.uses()) != 1 or weight.is_graph_input():
        return None
    return rewriter.initializer(contents.torch.t(), weight)


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


__all__ = ["ComposeViews"]


_SWAP = [0, 2, 1, 3]


def packed_attention(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Replace the views that split and join the heads by attributes of Attention."""
    if "q_num_heads" in node.attributes or "kv_num_heads" in node.attributes or len(node.outputs) > 3:
        return None
    tensors = [value for value in node.inputs[:3] if value is not None]
    packed = [_packed(rewriter, x) for x in tensors]
    if len(packed) != 3 or None in packed:
        return None
    batch, heads, length, width = known_dims(node.outputs[0])
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    attributes = {name: each.value for name, each in node.attributes.items()}
    attributes |= {"q_num_heads": heads, "kv_num_heads": known_dims(tensors[1])[1]}
    flat, *presents = rewriter.emit(
        "Attention", [*packed, *node.inputs[3:]], attributes, sizes=[batch, length, heads * width], outputs=len(node.outputs)
    )
    for old, new in zip(node.outputs[1:], presents, strict=True):
        rewriter.take_place(old, new)
    return transposed(rewriter, reshaped(rewriter, flat, [batch, length, heads, width]), _SWAP)


def _packed(rewriter: Rewriter, x: ir.Value) -> ir.Value | None:
    """Undo the view that split the heads of [batch, heads, length, width].

    Returns [batch, length, heads * width], or None where there was no such view.
    """
    sizes = known_dims(x)
    if producer(x, "Transpose") is None or len(sizes) != 4:
        return None
    batch, heads, length, width = sizes
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    joined = reshaped(rewriter, transposed(rewriter, x, _SWAP), [batch, length, heads * width])
    return None if producer(joined, "Reshape") else joined


def _transposed_by(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    return None if node.inputs[0] is None else transposed(rewriter, node.inputs[0], perm_of(node))


def _reshaped_by(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    return rows_of_linear(rewriter, node) or reshaped_by(rewriter, node)


class ComposeViews(RewritePass):
    """Compose views, also with the products, selections and attentions around them."""

    rules = MappingProxyType(
        {
            "Transpose": _transposed_by,
            "Reshape": _reshaped_by,
            "Unsqueeze": unsqueezed_by,
            "Squeeze": squeezed_by,
            "Slice": sliced,
            "Gather": selected,
            "MatMul": product_before_transpose,
            "Add": bias_before_transpose,
            "Gemm": gemm_of_transposes,
            "Attention": packed_attention,
        }
    )
