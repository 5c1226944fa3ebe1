"""Equal weights, found without reading the ones that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import torch

from onnxexp.tensors import bits, has_data

__all__ = ["deduplicate", "memory_key", "sample_key", "same_bits"]

_SAMPLES = 64


def deduplicate(initializers: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """For each name the first name whose tensor has the same dtype, shape and bits (its own, where there is none before it).

    NaNs with equal bits are equal, 0.0 and -0.0 are not. A tensor and its transpose are never equal: sharing those takes a
    Transpose node. Tensors without data (fake, meta) are equal only to themselves. Tensors on different devices are not compared.
    """
    by_memory: dict[Hashable, str] = {}
    candidates: defaultdict[Hashable, list[str]] = defaultdict(list)
    canonical: dict[str, str] = {}
    for name, tensor in initializers.items():
        canonical[name] = by_memory.setdefault(memory_key(tensor), name)
        if canonical[name] == name and has_data(tensor):
            candidates[_type_key(tensor)].append(name)
    merged: dict[str, str] = {}
    for names in candidates.values():
        if len(names) > 1:
            merged |= _equal_contents(names, initializers)
    return {name: merged.get(first, first) for name, first in canonical.items()}


def memory_key(tensor: torch.Tensor) -> Hashable:
    """Equal for tensors that read the same memory in the same way (tied weights), as long as they are alive."""
    if not has_data(tensor):
        return ("no data", id(tensor))
    view = (tensor.data_ptr(), tensor.stride(), tensor.is_conj(), tensor.is_neg())
    return (*_type_key(tensor), *view) if tensor.numel() else _type_key(tensor)


def sample_key(tensor: torch.Tensor) -> Hashable:
    """Equal for tensors of equal dtype, shape and bits; rarely equal for others: it has the bits of some 64 elements."""
    per_dimension = max(1, round(_SAMPLES ** (1 / max(1, sum(size > 1 for size in tensor.shape)))))
    steps = tuple(slice(None, None, max(1, size // per_dimension)) for size in tensor.shape)
    return (*_type_key(tensor), bits(tensor[steps]).contiguous().cpu().numpy().tobytes())


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one dtype, shape and device have the same bits."""
    return torch.equal(bits(one), bits(other))


def _type_key(tensor: torch.Tensor) -> tuple[Hashable, ...]:
    return (tensor.device, tensor.dtype, tuple(tensor.shape))


def _equal_contents(names: list[str], tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    firsts: defaultdict[Hashable, list[str]] = defaultdict(list)
    merged: dict[str, str] = {}
    for name in names:
        tensor = tensors[name]
        known = firsts[sample_key(tensor)]
        equal = next((first for first in known if same_bits(tensors[first], tensor)), None)
        if equal is None:
            known.append(name)
        else:
            merged[name] = equal
    return merged
