"""Embeddings with quantized tables: only the rows in use are dequantized.

Scales and zero points are floats, one of each for every row. A table of 4 bits stays packed, two codes in a byte.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight

table = FunctionTable()


def _rows(weight: PackedWeight, indices: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the rows of a table, in float32, for indices of any shape."""
    stored = weight.weight
    if (stored.dtype == torch.quint4x2) != (bits == 4):
        raise CaptureError(
            f"an embedding reads a table of {stored.dtype} as codes of {bits} bits, and so does torch, whose conversion "
            "of nn.Embedding does this; "
            "to fix this, use torch.ao.nn.quantized.Embedding(..., dtype=torch.quint4x2) with set_weight"
        )
    codes = functional.embedding(indices, stored.integers)
    if bits == 4:
        codes = torch.stack([codes % 16, codes // 16], -1).flatten(-2)  # the lower half of a byte comes first
    scale, zero_point = (functional.embedding(indices, each.reshape(-1, 1)) for each in (stored.scale, stored.zero_point))
    return (codes.to(torch.float32) - zero_point) * scale


def _embedding(bits: int, weight: PackedWeight, indices: torch.Tensor, pruned_weights: bool = False) -> torch.Tensor:
    """quantized::embedding_byte(EmbeddingPackedParamsBase weight, Tensor indices, bool pruned_weights=False) -> Tensor"""
    refuse_pruned(pruned_weights)
    return _rows(weight, indices, bits)


def _bag(
    bits: int,
    weight: PackedWeight,
    indices: torch.Tensor,
    offsets: torch.Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    compressed_indices_mapping: torch.Tensor | None = None,
    include_last_offset: bool = False,
) -> torch.Tensor:
    """quantized::embedding_bag_byte(EmbeddingPackedParamsBase weight, Tensor indices, Tensor? offsets=None, bool
    scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor?
    compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor

    torch adds the rows of a bag in every mode.
    """
    refuse_pruned(pruned_weights and compressed_indices_mapping is not None)
    return add_rows(_rows(weight, indices, bits), indices, offsets, per_sample_weights, include_last_offset)


def add_rows(
    rows: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor | None,
    per_sample_weights: torch.Tensor | None,
    include_last_offset: bool,
) -> torch.Tensor:
    """Add the rows of each bag, for indices that are a matrix or have offsets."""
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if indices.dim() == 2:
        return rows.sum(1)
    assert offsets is not None
    places = torch.arange(indices.shape[0], device=indices.device)
    result: torch.Tensor = functional.embedding_bag(
        places, rows, offsets.to(torch.int64), mode="sum", include_last_offset=include_last_offset
    )
    return result


def refuse_pruned(pruned: Any) -> None:
    if pruned:
        raise CaptureError(
            "a quantized embedding with pruned rows has no form in ONNX; to fix this, store the table without pruning"
        )


for _name, _bits in (("byte", 8), ("4bit", 4)):
    table(f"quantized::embedding_{_name}")(functools.partial(_embedding, _bits))
    table(f"quantized::embedding_bag_{_name}")(functools.partial(_bag, _bits))
