"""Attend with grouped keys and values, not copies of them, and extend a cache."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir

from onnxexp.graph import Dim
from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.matching import producer
from onnxexp_aten.passes.view_rules import known_dims, perm_of, reshaped


def _before_repeat(value: ir.Value | None) -> tuple[ir.Node, int] | None:
    """Match ``x[:, :, None].expand(-1, -1, n, -1, -1).reshape(...)``.

    Returns the Unsqueeze of x and n, or None.
    """
    copies = producer(value, "Reshape")
    wide = None if copies is None else producer(copies.inputs[0], "Expand")
    narrow = None if wide is None else producer(wide.inputs[0], "Unsqueeze")
    sizes = Rewriter.dims(value)
    if wide is None or narrow is None or sizes is None or len(sizes) != 4:
        return None
    target, axes = Rewriter.constant_ints(wide, 1, "shape"), Rewriter.constant_ints(narrow, 1, "axes")
    shared = Rewriter.dims(narrow.inputs[0])
    if target is None or len(target) != 5 or axes != [2] or shared is None or len(shared) != 4:
        return None
    heads, own = sizes[1], shared[1]
    if target[:2] + target[3:] != [1, 1, 1, 1] or not isinstance(own, int):
        return None
    return (narrow, target[2]) if heads == own * target[2] else None


def _attention(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Drop a repetition before Attention, which takes fewer key and value heads."""
    key, value = (_before_repeat(node.inputs[index]) for index in (1, 2))
    if key is None or value is None or key[1] != value[1] or len(node.outputs) != 1 or "kv_num_heads" in node.attributes:
        return None
    attributes = {name: each.value for name, each in node.attributes.items()}
    inputs = [node.inputs[0], key[0].inputs[0], value[0].inputs[0], *node.inputs[3:]]
    return rewriter.one("Attention", inputs, attributes, rewriter.dims(node.outputs[0]))


def _single(value: ir.Value | None, operator: str) -> ir.Node | None:
    """Return the node that makes a value for one user, else None."""
    node = producer(value, operator)
    single = value is not None and len(value.uses()) == 1 and not value.is_graph_output()
    return node if single else None


def _product(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Let each head of the keys and values broadcast over its queries.

    Matches ``softmax(query @ key^T + bias) @ value``. `node` is the last product, or its product with a factor.
    """
    last = _single(node.inputs[0], "MatMul") if node.op_type == "Mul" else node
    value = None if last is None else _before_repeat(last.inputs[1])
    softmax = None if last is None or value is None else _single(last.inputs[0], "Softmax")
    if last is None or value is None or softmax is None or _takes_factor(node):
        return None
    total = _single(softmax.inputs[0], "Add")
    scores = _single(softmax.inputs[0] if total is None else total.inputs[0], "MatMul")
    swapped = None if scores is None else producer(scores.inputs[1], "Transpose")
    key = None if swapped is None else _before_repeat(swapped.inputs[0])
    if scores is None or swapped is None or key is None or perm_of(swapped) != [0, 1, 3, 2] or key[1] != value[1]:
        return None
    groups, narrow = key[1], key[0].inputs[0]
    query = _split_query(rewriter, scores.inputs[0], groups)
    batch, own, each, length, width = known_dims(query)
    count = known_dims(narrow)[2]
    # Unsqueezed after it: ONNX Runtime joins this Transpose with earlier ones, and is much slower where the result has five axes.
    turned = rewriter.one("Transpose", [narrow], {"perm": [0, 1, 3, 2]}, [batch, own, width, count])
    turned = rewriter.with_ints("Unsqueeze", turned, "axes", [2], 13, [batch, own, 1, width, count])
    sizes: list[Dim] = [batch, own, each, length]
    weights = rewriter.one("MatMul", [query, turned], sizes=[*sizes, count])
    if total is not None:
        weights = rewriter.one("Add", [weights, _split_heads(rewriter, total.inputs[1], groups)], sizes=[*sizes, count])
    weights = rewriter.one("Softmax", [weights], {"axis": -1}, [*sizes, count])
    values = value[0].outputs[0]
    result = rewriter.one("MatMul", [weights, values], sizes=[*sizes, known_dims(values)[-1]])
    if node is not last:
        result = rewriter.one("Mul", [result, _split_heads(rewriter, node.inputs[1], groups)], sizes=known_dims(result))
    return reshaped(rewriter, result, known_dims(node.outputs[0]))


def _takes_factor(node: ir.Node) -> bool:
    """Return whether the only user is a Mul by a factor of the rows.

    That Mul is rewritten as a whole.
    """
    users = node.outputs[0].consumers()
    user = users[0] if node.op_type == "MatMul" and len(users) == 1 else None
    if user is None or user.op_type != "Mul" or user.domain or user.inputs[0] is not node.outputs[0]:
        return False
    return len(Rewriter.dims(user.inputs[1]) or ()) == 4


def _split_query(rewriter: Rewriter, query: ir.Value | None, groups: int) -> ir.Value:
    """Split the heads before the scale, where the views can be composed."""
    scaled = _single(query, "Mul")
    scale = None if scaled is None else scaled.inputs[1]
    if scaled is None or scale is None or rewriter.dims(scale) != ():
        return _split_heads(rewriter, query, groups)
    split = _split_heads(rewriter, scaled.inputs[0], groups)
    return rewriter.one("Mul", [split, scale], sizes=known_dims(split))


def _split_heads(rewriter: Rewriter, x: ir.Value | None, groups: int) -> ir.Value:
    """Split heads into those of keys and their queries; without heads `x` stays."""
    sizes = known_dims(x)
    assert x is not None
    axis = len(sizes) - 3
    if axis < 0:
        return x
    heads, rest = sizes[axis], sizes[axis + 1 :]
    if heads == 1:
        return _with_groups(rewriter, x, axis + 1)
    if not isinstance(heads, int):
        return reshaped(rewriter, x, sizes)
    return reshaped(rewriter, x, [*sizes[:axis], heads // groups, groups, *rest])


def _with_groups(rewriter: Rewriter, x: ir.Value, axis: int) -> ir.Value:
    """Unsqueeze a mask, before it becomes a bias or a factor of rows: both need it."""
    node, sizes = x.producer(), list(known_dims(x))
    sizes.insert(axis, 1)
    source = node.inputs[0] if node is not None and _keeps_axes(node) else None
    if node is None or source is None or len(rewriter.dims(source) or ()) != len(sizes) - 1:
        return rewriter.with_ints("Unsqueeze", x, "axes", [axis], 13, sizes)
    attributes = {name: each.value for name, each in node.attributes.items()}
    inputs = [_with_groups(rewriter, source, axis), *node.inputs[1:]]
    return rewriter.emit(node.op_type, inputs, attributes, sizes=sizes, type_=x.type)[0]


def _keeps_axes(node: ir.Node) -> bool:
    """Return whether a node computes each row of its first input by itself."""
    if node.domain or node.op_type not in ("Cast", "ReduceMax", "Where"):
        return False
    if node.op_type == "ReduceMax":
        return Rewriter.constant_ints(node, 1, "axes") == [-1] and bool(node.attributes.get_int("keepdims", 1))
    return all(Rewriter.dims(value) == () for value in node.inputs[1:])


class FuseGroupedAttention(RewritePass):
    """Drop the repetition of the heads of keys and values, as Llama writes it."""

    rules = MappingProxyType({"MatMul": _product, "Mul": _product, "Attention": _attention})


def _with_cache(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    if (
        len(node.outputs) != 1
        or node.attributes.get_int("is_causal", 0) == 1
        or any(each is not None for each in node.inputs[4:])
    ):
        return None
    presents = node.inputs[1:3]
    (past_key, key), (past_value, value) = (_cached(node, present) for present in presents)
    if None in (past_key, key, past_value, value) or known_dims(past_key)[2] != known_dims(past_value)[2]:
        return None
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    attributes = {name: each.value for name, each in node.attributes.items()}
    inputs = [node.inputs[0], key, value, mask, past_key, past_value]
    made = rewriter.emit("Attention", inputs, attributes, sizes=known_dims(node.outputs[0]), outputs=3)
    for present, replacement in zip(presents, made[1:], strict=True):
        assert present is not None
        rewriter.take_place(present, replacement)
    return made[0]


def _cached(node: ir.Node, present: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """Match ``Concat(past, new)`` along the sequence; return both, else None twice."""
    joined = None if present is None else present.producer()
    if present is None or joined is None or joined.op_type != "Concat" or joined.domain or len(joined.inputs) != 2:
        return None, None
    sole = present.is_graph_output() and all(user is node for user, _ in present.uses()) and len(present.uses()) == 1
    if not sole or joined.graph is not node.graph or len(known_dims(present)) != 4 or joined.attributes.get_int("axis", 0) != 2:
        return None, None
    return joined.inputs[0], joined.inputs[1]


class FuseCachedAttention(RewritePass):
    """Let Attention concatenate the past with the new keys and values.

    The pass replaces ``Concat(past, new)`` along the sequence where the graph returns it as the present keys or values, and only
    this Attention reads it. The kernel then copies the past while it computes: no Concat runs before it.
    """

    rules = MappingProxyType({"Attention": _with_cache})
