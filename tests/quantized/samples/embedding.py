"""Samples of embeddings with quantized tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.quantized.samples.operands import Layer, Operands, Row, rows_quantized

Q = torch.ops.quantized


def packed(call: Callable[[Operands, Any], Any], dtype: torch.dtype = torch.quint8) -> Layer:
    return Layer(lambda t: Q.embedding_bag_prepack(rows_quantized(t.table, dtype)), call)


def bytewise(bits: str, call: Callable[[Operands, Any], Any]) -> Layer:
    """Pack a table into bytes, each row with its scale and its smallest number."""
    return Layer(lambda t: getattr(Q, f"embedding_bag_{bits}_prepack")(t.table), call)


def bags(name: str) -> list[Callable[[Operands, Any], Any]]:
    """Call on bags with offsets, with weights and the last offset, and with int32."""
    offsets, ends = torch.tensor([0, 2, 2]), torch.tensor([0, 2, 2, 6])
    return [
        lambda t, table: getattr(Q, name)(table, t.rows.flatten(), offsets),
        lambda t, table: getattr(Q, name)(
            table, t.rows.flatten(), ends, include_last_offset=True, per_sample_weights=t.f.flatten()[: t.rows.numel()]
        ),
        lambda t, table: getattr(Q, name)(table, t.rows.flatten().int(), offsets.int()),
    ]


EMBEDDING: dict[str, list[Row]] = {
    "quantized::embedding_byte": [packed(lambda t, table: Q.embedding_byte(table, t.rows.flatten()))],
    "quantized::embedding_4bit": [packed(lambda t, table: Q.embedding_4bit(table, t.rows.flatten()), torch.quint4x2)],
    "quantized::embedding_bag_byte": [packed(call) for call in bags("embedding_bag_byte")],
    "quantized::embedding_bag_4bit": [packed(call, torch.quint4x2) for call in bags("embedding_bag_4bit")],
    **{
        f"quantized::embedding_bag_{bits}_rowwise_offsets": [
            bytewise(bits, call) for call in bags(f"embedding_bag_{bits}_rowwise_offsets")
        ]
        for bits in ("byte", "4bit", "2bit")
    },
    **{
        f"quantized::embedding_bag_{bits}_unpack": [
            bytewise(bits, lambda t, table, bits=bits: getattr(Q, f"embedding_bag_{bits}_unpack")(table))
        ]
        for bits in ("byte", "4bit", "2bit")
    },
    "quantized::embedding_bag_unpack": [
        packed(lambda t, table: Q.embedding_bag_unpack(table), dtype) for dtype in (torch.quint8, torch.quint4x2)
    ],
}  # fmt: skip
"""Embeddings, whose results are floats."""
