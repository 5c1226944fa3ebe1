"""nn/attention.py: scaled dot product attention in every form."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn
Q, K, V = r(2, 4, 3, 8), r(2, 4, 5, 8), r(2, 4, 5, 8)
MASK = torch.ones(2, 1, 3, 5, dtype=torch.bool)
MASK[1, 0, 1] = False  # a row without any key gives 0
MASK[0, 0, :, 3:] = False
INFINITE = torch.where(MASK, 0.0, -torch.inf)
FINITE = torch.where(MASK, 0.0, torch.finfo(torch.float32).min)
TALL, WIDE = {0: [0, 2], 1: [0, 2], 2: [0, 2]}, {0: [0, 2], 1: [0, 2], 2: [0, 2], 3: [0, 2, 3]}
BY_HAND = {"Mul", "Transpose", "MatMul", "Softmax"}


def case(fn, *inputs: torch.Tensor, **options: object) -> Case:
    return Case(fn, *inputs, rtol=1e-4, atol=1e-5, **options)


@cases(
    case(attention, Q, K, V, dynamic=TALL, emits={"Attention"}, name="plain"),
    case(attention, Q, K, V, dynamic=TALL, emits=BY_HAND, opsets=(9, 11, 13, 20), name="plain_by_hand"),
    case(lambda q, k, v: attention(q, k, v, scale=1.0), Q, K, V, emits=BY_HAND - {"Mul"}, opsets=(13, 20), name="unscaled"),
    case(lambda q, k, v: attention(q, k, v, scale=0.3), Q, K, V[..., :4], name="scaled"),
    case(attention, Q, K, V, MASK, dynamic=WIDE, name="mask"),
    case(attention, Q, K, V, MASK[:, :, :1].clone(), dynamic={**TALL, 3: [0, 3]}, name="key_mask"),
    case(attention, Q, K, V, MASK[0, 0].clone(), name="square_mask"),
    case(attention, Q, K, V, INFINITE, dynamic=WIDE, name="float_mask"),
    case(attention, Q, K, V, FINITE, dynamic=WIDE, name="finite_mask"),
    case(lambda q, k, v: attention(q, k, v, INFINITE), Q, K, V, name="constant_infinite_mask"),
    case(lambda q, k, v: attention(q, k, v, FINITE), Q, K, V, name="constant_finite_mask"),
    case(lambda q, k, v: attention(q, k, v, is_causal=True), Q, K, V, dynamic=TALL, name="causal"),
    case(lambda q, k, v: attention(q, k, v, is_causal=True), r(1, 80, 8), r(1, 70, 8), r(1, 70, 8), name="causal_large"),
    case(attention, Q[0], K[0], V[0], dynamic={0: [0, 1], 1: [0, 1], 2: [0, 1]}, name="3d"),
    case(
        attention,
        Q[0],
        K[0],
        V[0],
        torch.ones(4, 3, 5) > 0,
        dynamic={0: [0, 1], 1: [0, 1], 2: [0, 1], 3: [0, 1, 2]},
        name="3d_mask",
    ),
    case(attention, Q[0, 0], K[0, 0], V[0, 0], dynamic={0: [0], 1: [0], 2: [0]}, name="2d"),
    case(attention, Q[None], K[None], V[None], dynamic={0: [0, 1], 1: [0, 1], 2: [0, 1]}, name="5d"),
    case(attention, Q.double(), K.double(), V.double(), MASK, name="double"),
)
def test_attention(check):
    check()


def half(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q.half(), k.half(), v.half(), MASK)


def of_any_width(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    return attention(x, x, x, mask).logcumsumexp(-1)


def of_scaled(x: torch.Tensor) -> torch.Tensor:
    return attention(x * 2, x * 2, x * 2) + attention(*[x * 3] * 3, scale=0.7)


def self_attention(x: torch.Tensor) -> torch.Tensor:
    """Split heads off, attend, and join the heads again."""
    heads = (x.view(x.shape[0], -1, 4, 2).transpose(1, 2) for _ in range(3))
    return attention(*heads, is_causal=True).transpose(1, 2).reshape(x.shape[0], -1, 8)


def repeated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Repeat keys and values for their queries, as Llama does."""
    key, value = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(x.shape[0], 4, -1, 8) for x in (k, v))
    return attention(q, key, value, MASK)


@cases(
    Case(half, Q, K, V, rtol=1e-2, atol=1e-2),
    case(of_any_width, r(2, 3, 4), dynamic={0: [0, 2]}, opsets=(23,)),
    case(of_any_width, r(2, 3, 4), r(3, 3), dynamic={0: [0, 2]}, opsets=(23,), name="of_any_width_masked"),
    case(of_any_width, r(2, 3, 4), r(2, 3, 3), dynamic={0: [2]}, opsets=(18, 23, 24), name="of_any_width_mask_of_each"),
    case(of_scaled, r(2, 3, 4), dynamic={0: [0, 1]}, opsets=(13, 20, 23)),
    case(self_attention, r(2, 3, 8), dynamic={0: [0, 1]}, emits={"Attention"}),
    case(repeated, Q, K[:, :2], V[:, :2], emits={"Attention"}),
    case(
        lambda q, k, v: attention(q, k, v, enable_gqa=True),
        Q,
        K[:, :2],
        V[:, :2],
        dynamic=TALL,
        emits={"Attention"},
        name="grouped",
    ),
    case(
        lambda q, k, v, m: attention(q, k, v, m, enable_gqa=True), Q, K[:, :2], V[:, :2], MASK, dynamic=WIDE, name="grouped_mask"
    ),
    case(
        lambda q, k, v, m: attention(q, k, v, m, enable_gqa=True),
        Q,
        K[:, :2],
        V[:, :2],
        MASK.repeat(1, 4, 1, 1),
        dynamic=WIDE,
        name="grouped_masks",
    ),
)
def test_heads(check):
    check()
