"""Fused transformer layers of torch.

`nn.TransformerEncoderLayer` calls them in evaluation without gradients. They are lowered to the operators that the module
calls with gradients, which gives the same graph.
"""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.matmul import linear
from onnxexp_aten.nn import activation, attention, normalization
from onnxexp_aten.support.lower_by_table import lower_by
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.view_nodes import permuted, reshaped, unsqueezed

table = SymbolicTable("aten")

_KEY_PADDING = 1
"""Mask type of masks [batch, keys].

Other masks are [queries, keys] or [batch, heads, queries, keys].
"""


def _heads(op: Builder, x: Tensor, count: int) -> Tensor:
    """Split [batch, length, width] into [batch, heads, length, head width]."""
    batch, length, width = x.shape or (1, 1, 1)
    assert isinstance(width, int)
    return permuted(op, reshaped(op, x, [batch, length, count, width // count]), [0, 2, 1, 3])


def _projected(op: Builder, tensors: list[Tensor], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Compute queries, keys and values: one product for one source, else three."""
    if tensors[0] is tensors[1] is tensors[2]:
        return list(op.Split(linear(op, tensors[0], weight, bias), [_third(weight)] * 3, axis=2, outputs=3))
    parts = zip(
        op.Split(weight, [_third(weight)] * 3, axis=0, outputs=3),
        op.Split(bias, [_third(weight)] * 3, axis=0, outputs=3),
        strict=True,
    )
    return [linear(op, tensor, *part) for tensor, part in zip(tensors, parts, strict=True)]


def _third(weight: Tensor) -> int:
    size = (weight.shape or (0,))[0]
    assert isinstance(size, int)
    return size // 3


def _kept(op: Builder, mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """Convert a mask for scaled_dot_product_attention.

    These operators' masks are True at positions to ignore.
    """
    if mask is None:
        return None
    mask = op.Not(mask) if mask.dtype == torch.bool else mask
    return unsqueezed(op, mask, [1, 2]) if mask_type == _KEY_PADDING else mask


@table("_native_multi_head_attention")
def native_multi_head_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor]:
    """_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, ...) -> (Tensor, Tensor)"""
    made = [_heads(op, x, num_head) for x in _projected(op, [query, key, value], qkv_weight, qkv_bias)]
    kept = _kept(op, mask, mask_type)
    if need_weights:
        weights, keep = attention.scaled_scores(op, made[0], made[1], kept)
        result = op.MatMul(weights, made[2])
        result = result if keep is None else op.Mul(result, keep)
        weights = weights if keep is None else op.Mul(weights, keep)
        weights = op.ReduceMean(weights, axes=[1], keepdims=0) if average_attn_weights else weights
    else:
        result = lower_by(op, attention.table, "scaled_dot_product_attention", *made, kept, 0.0, False, None, False)
        weights = op.constant(torch.zeros(0, dtype=query.dtype))
    batch, length, _ = query.shape or (1, 1, 1)
    joined = reshaped(op, permuted(op, result, [0, 2, 1, 3]), [batch, length, embed_dim])
    return linear(op, joined, proj_weight, proj_bias), weights


@table("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    op: Builder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Tensor:
    """_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, ...) -> Tensor"""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        made: Tensor = lower_by(op, normalization.table, "layer_norm", x, [embed_dim], weight, bias, eps, False)
        return made

    def attend(x: Tensor) -> Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return native_multi_head_attention(op, x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type)[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = linear(op, x, ffn_weight_1, ffn_bias_1)
        active = lower_by(op, activation.table, "gelu", inner, "none") if use_gelu else op.Relu(inner)
        return linear(op, active, ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if rank_of(op, src) != 3:
        op.decline("the input must have three dimensions: batch, length, width")
    if norm_first:
        x = op.Add(src, attend(norm(src, *first)))
        return op.Add(x, feed_forward(norm(x, *second)))
    x = norm(op.Add(src, attend(src)), *first)
    return norm(op.Add(x, feed_forward(x)), *second)
