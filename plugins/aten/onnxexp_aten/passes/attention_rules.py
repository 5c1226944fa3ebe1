"""Rules for Attention among views, part of `ComposeViews`."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp.rewriting import Rewriter
from onnxexp_aten.passes.matching import producer
from onnxexp_aten.passes.view_rules import known_dims, reshaped, transposed

_SWAP = [0, 2, 1, 3]
"""The permutation that exchanges heads and sequence."""


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
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
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
