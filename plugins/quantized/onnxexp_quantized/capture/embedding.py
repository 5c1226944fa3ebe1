"""Embeddings with quantized tables: only the rows in use are dequantized.

Scales and zero points are floats, one of each for every row. A table of 4 bits stays packed, two codes in a byte.

A table may also be a tensor of bytes. Each row has its codes, and after them its scale and its smallest number: float32 for codes
of 8 bits, float16 for narrower ones. ONNX has no operator that reads a float from bytes, so the graph computes it from exponent
and mantissa, for the rows in use only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight

table = FunctionTable()

_MANTISSA = {4: 23, 2: 10}
"""The bits of the mantissa, by the bytes of a float."""


def _rows(bits: int, weight: PackedWeight, indices: torch.Tensor) -> torch.Tensor:
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
    _refuse_pruned(pruned_weights)
    return _rows(bits, weight, indices)


def _bag(
    read: Callable[[Any, torch.Tensor], torch.Tensor],
    weight: Any,
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

    `quantized::embedding_bag_byte_rowwise_offsets` takes a tensor of bytes in the place of the weight. torch adds the rows of a
    bag in every mode. `read` returns the rows of a table for indices.
    """
    _refuse_pruned(pruned_weights and compressed_indices_mapping is not None)
    rows = read(weight, indices)
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


def _refuse_pruned(pruned: Any) -> None:
    if pruned:
        raise CaptureError(
            "a quantized embedding with pruned rows has no form in ONNX; to fix this, store the table without pruning"
        )


for _name, _bits in (("byte", 8), ("4bit", 4)):
    table(f"quantized::embedding_{_name}")(functools.partial(_embedding, _bits))
    table(f"quantized::embedding_bag_{_name}")(functools.partial(_bag, functools.partial(_rows, _bits)))


def _floats(parts: torch.Tensor, size: int) -> torch.Tensor:
    """Compute floats from their bytes, which are the last axis, lowest byte first."""
    mantissa_bits = _MANTISSA[size]
    bits = sum(parts[..., place].to(torch.int64) * 256**place for place in range(size))
    mantissa = bits % 2**mantissa_bits
    exponent = (bits // 2**mantissa_bits) % 2 ** (8 * size - 1 - mantissa_bits)
    bias = 2 ** (8 * size - 2 - mantissa_bits) - 1
    fraction = mantissa.to(torch.float32) * 2.0**-mantissa_bits + (exponent > 0).to(torch.float32)
    sign = 1 - 2 * (bits // 2 ** (8 * size - 1)).to(torch.float32)
    return sign * fraction * torch.pow(2.0, (exponent.clamp(min=1) - bias).to(torch.float32))


def _decoded(bits: int, stored: torch.Tensor) -> torch.Tensor:
    """quantized::embedding_bag_byte_unpack(Tensor weight) -> Tensor

    It dequantizes rows of bytes.
    """
    size = 4 if bits == 8 else 2
    codes = stored[..., : -2 * size]
    if bits < 8:  # the lowest bits of a byte come first
        codes = torch.stack([codes // 2**shift % 2**bits for shift in range(0, 8, bits)], -1).flatten(-2)
    scale, lowest = _floats(stored[..., -2 * size : -size], size), _floats(stored[..., -size:], size)
    return codes.to(torch.float32) * scale.unsqueeze(-1) + lowest.unsqueeze(-1)


def _decoded_rows(bits: int, stored: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Dequantize the rows of bytes for indices."""
    return _decoded(bits, functional.embedding(indices, stored))


def byte_embedding_replacements() -> dict[str, Callable[..., Any]]:
    """Return the functions of tables of bytes by their names in `torch.ops.quantized`."""
    found: dict[str, Callable[..., Any]] = {}
    for name, bits in (("byte", 8), ("4bit", 4), ("2bit", 2)):
        found[f"embedding_bag_{name}_unpack"] = functools.partial(_decoded, bits)
        found[f"embedding_bag_{name}_rowwise_offsets"] = functools.partial(_bag, functools.partial(_decoded_rows, bits))
    return found
