"""The definition of a benchmark model, and helpers for its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Sizes = Mapping[str, int]
Axes = dict[int, str]


@dataclass(frozen=True)
class BenchCase:
    """A model and its inputs, all positional tensors.

    Attributes:
        name: The name in tables and on the command line.
        build: Creates the model; `make` seeds it, so that every process has the same weights.
        inputs: Returns the arguments for some sizes, the same at each call.
        example: The sizes of the export. None of them is 1: tools treat such an axis as static.
        other: The sizes of the check and of the latency.
        axes: The dynamic axes and their names, by argument.
        quick: Whether the case belongs to `--quick`.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[Sizes], tuple[torch.Tensor, ...]]
    example: Sizes
    other: Sizes
    axes: tuple[Axes, ...]
    quick: bool = False

    def make(self) -> nn.Module:
        """Create the model in eval mode, the same at each call.

        Batch statistics are random, since the initial ones would hide errors.
        """
        torch.manual_seed(0)
        model = self.build().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None and module.running_var is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        return model


def floats(*shape: int) -> torch.Tensor:
    """Return normally distributed float32 values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    """Return int64 ids from 3 on.

    Models reserve the first three ids for padding and ends.
    """
    return torch.randint(3, vocabulary, shape, generator=torch.Generator().manual_seed(2))


def padding_mask(batch: int, sequence: int) -> torch.Tensor:
    """Return an int64 mask of ones, where every second row ends in two zeros."""
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1::2, -2:] = 0
    return mask


def weight_bytes(model: nn.Module) -> int:
    """Count the bytes of all parameters and buffers, and shared storage once."""
    storages: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
    return sum(storage.nbytes() for storage in storages.values())
