"""Quantized embeddings whose table is a tensor of bytes.

Each row has its codes, and after them its scale and its smallest number: float32 for codes of 8 bits, float16 for narrower ones.
ONNX has no operator that reads a float from bytes, so the graph computes it from exponent and mantissa, for the rows in use only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.embedding import add_rows, refuse_pruned

_MANTISSA = {4: 23, 2: 10}
"""The bits of the mantissa, by the bytes of a float."""


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
    """Dequantize rows of bytes."""
    size = 4 if bits == 8 else 2
    codes = stored[..., : -2 * size]
    if bits < 8:  # the lowest bits of a byte come first
        codes = torch.stack([codes // 2**shift % 2**bits for shift in range(0, 8, bits)], -1).flatten(-2)
    scale, lowest = _floats(stored[..., -2 * size : -size], size), _floats(stored[..., -size:], size)
    return codes.to(torch.float32) * scale.unsqueeze(-1) + lowest.unsqueeze(-1)


def _unpack(bits: int, weight: torch.Tensor) -> torch.Tensor:
    """quantized::embedding_bag_byte_unpack(Tensor weight) -> Tensor"""
    return _decoded(bits, weight)


def _bag(
    bits: int,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    compressed_indices_mapping: torch.Tensor | None = None,
    include_last_offset: bool = False,
) -> torch.Tensor:
    """quantized::embedding_bag_byte_rowwise_offsets(Tensor weight, Tensor indices, Tensor? offsets=None, bool
    scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor?
    compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor

    torch adds the rows of a bag in every mode.
    """
    refuse_pruned(pruned_weights and compressed_indices_mapping is not None)
    rows = _decoded(bits, functional.embedding(indices, weight))
    return add_rows(rows, indices, offsets, per_sample_weights, include_last_offset)


def replacements() -> dict[str, Callable[..., Any]]:
    """Return the functions by their names in `torch.ops.quantized`."""
    found: dict[str, Callable[..., Any]] = {}
    for name, bits in (("byte", 8), ("4bit", 4), ("2bit", 2)):
        found[f"embedding_bag_{name}_unpack"] = functools.partial(_unpack, bits)
        found[f"embedding_bag_{name}_rowwise_offsets"] = functools.partial(_bag, bits)
    return found
