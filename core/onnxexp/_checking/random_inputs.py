"""Random inputs with the structure, dtypes and ranges of an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._request.tensor_list import TensorList

_FEW = 16
"""An example with up to so many different numbers is taken for a mask or labels: its own numbers are drawn."""


def random_like(args: Sequence[Any], kwargs: Mapping[str, Any], seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace the tensors of a call by random ones.

    A tensor that occurs twice is replaced by one tensor. Floats are normal numbers with the example's mean and deviation,
    integers lie between its least and greatest. Tensors with a few different numbers (masks, labels) get these numbers again.
    """
    generator = torch.Generator().manual_seed(seed)
    made: dict[int, Any] = {}

    def replace(leaf: Any) -> Any:
        if isinstance(leaf, TensorList):
            return TensorList(replace(element) for element in leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = _random_tensor(leaf, generator)
        return made[id(leaf)]

    return pytree.tree_map(replace, (tuple(args), dict(kwargs)))  # type: ignore[no-any-return]


def _random_tensor(example: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if example.numel() == 0 or example.is_quantized or example.is_sparse or example.is_nested:
        return example
    flat = example.detach().cpu().reshape(-1)
    if flat.is_complex():
        return torch.view_as_complex(_random_tensor(torch.view_as_real(flat), generator)).reshape(example.shape)
    wide = flat.double()
    values = torch.unique(wide) if flat.numel() > _FEW or flat.dtype == torch.bool else wide
    if flat.dtype == torch.bool or (flat.numel() > _FEW and len(values) <= _FEW):
        drawn = values[torch.randint(len(values), (flat.numel(),), generator=generator)]
    elif flat.dtype.is_floating_point:
        finite = wide[wide.isfinite()]
        mean, deviation = (float(finite.mean()), float(finite.std(correction=0))) if len(finite) else (0.0, 1.0)
        drawn = torch.randn(flat.numel(), dtype=torch.float64, generator=generator) * (deviation or 1.0) + mean
    else:
        low, high = int(wide.min()), int(wide.max())
        drawn = torch.randint(low, high + 1, (flat.numel(),), generator=generator)
    return drawn.to(flat.dtype).reshape(example.shape).to(example.device).requires_grad_(example.requires_grad)
