"""Samples of operators that torch's own functions or a conversion call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.quantized.samples.operands import Layer, Operands, Row, rows_quantized, written

A, Q = torch.ops.aten, torch.ops.quantized


def gru(cell: Callable[[Any, Any, torch.Tensor], Any], pack: Row = Q.linear_prepack) -> Layer:
    """Build a GRU that packs its own weights, for 4 inputs and 2 state elements."""

    def call(t: Operands, packed: Any) -> Any:
        made = cell(pack(t.w0, t.b), pack(t.w0[:, :2], t.b), t.b)
        return torch.quantized_gru(t.f[:, :, 0, :4], torch.zeros(1, 4, 2), [made], True, 1, 0.0, False, False, False)

    return Layer(lambda t: None, call, quantum=0.1)


def half(weight: Any, bias: Any) -> Any:
    return Q.linear_prepack_fp16(weight.dequantize(), bias)


def repacked(table: Any) -> Any:
    packed = Q.embedding_bag_prepack(table)
    return Q.embedding_bag_unpack(packed).dequantize()  # while `packed` lives: both have the same memory


def in_bytes(bits: str, *, limits: bool = False) -> Row:
    """Build a table of bytes that the model packs itself."""
    if limits:
        pack = getattr(Q, f"embedding_bag_{bits}_prepack_with_rowwise_min_max")
        return lambda t: pack(t.table, torch.stack(t.table.aminmax(dim=1), 1))
    return lambda t: getattr(Q, f"embedding_bag_{bits}_prepack")(t.table)


def packed_for_the_cpu(t: Operands) -> Any:
    codes = torch.arange(2048, dtype=torch.int32).reshape(32, 64) % 16
    return A._convert_weight_to_int4pack_for_cpu(codes, 1)


def four_bits(t: Operands, packed: Any) -> Any:
    x = t.f.flatten()[:192].reshape(3, 64).bfloat16()
    return Q.int4mm_packed_weight_cpu(x, packed, torch.tensor(32), torch.ones(2, 32, 2, dtype=torch.bfloat16))


OTHER: dict[str, list[Row]] = {
    "equal": [lambda t: torch.equal(t.x, t.y)],
    "_index_put_impl_": [written(lambda t: A._index_put_impl_(t.x, [t.index[1:]], torch.tensor(1.0)))],
    "_reshape_alias": [lambda t: A._reshape_alias(t.x, [8, 36], [36, 1])],
    "resize_": [written(lambda t: t.x.resize_(2, 4, 3, 3))],
    **{f"quantized::embedding_bag_{bits}_prepack": [in_bytes(bits)] for bits in ("byte", "4bit", "2bit")},
    **{f"quantized::embedding_bag_{bits}_prepack_with_rowwise_min_max": [in_bytes(bits, limits=True)]
       for bits in ("byte", "4bit", "2bit")},
    "quantized::embedding_bag_prepack": [
        lambda t: repacked(t.codes), lambda t: repacked(rows_quantized(t.table, torch.quint4x2)),
    ],
    "quantized::make_quantized_cell_params": [
        gru(lambda ih, hh, b: Q.make_quantized_cell_params(torch.ones(6, 4), torch.ones(6, 2), b, b))
    ],
    "quantized::make_quantized_cell_params_dynamic": [
        gru(lambda ih, hh, b: Q.make_quantized_cell_params_dynamic(ih, hh, b, b, True))
    ],
    "quantized::make_quantized_cell_params_fp16": [gru(lambda ih, hh, b: Q.make_quantized_cell_params_fp16(ih, hh), half)],
    "quantized::int4mm_packed_weight_cpu": [Layer(packed_for_the_cpu, four_bits)],
    "quantized::linear_prepack_legacy": [lambda t: Q.linear_unpack(Q.linear_prepack_legacy(t.w0, t.b))],
    "quantized::linear_prepack_fp16_legacy": [
        lambda t: Q.linear_unpack_fp16(Q.linear_prepack_fp16_legacy(t.w0.dequantize(), t.b))
    ],
}  # fmt: skip
"""Rows by the name of their function."""
