"""What one benchmark model is."""

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
        name: How it is called in tables and on the command line.
        build: Makes the model; `make` seeds it, so that every process has the same weights.
        inputs: The arguments for given sizes, the same at each call.
        example: Sizes that it is exported with. None of them is 1: tools take such an axis for a fixed one.
        other: Sizes that it is checked and timed at.
        axes: By argument, the axes that vary and their names.
        quick: Whether `--quick` takes it.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[Sizes], tuple[torch.Tensor, ...]]
    example: Sizes
    other: Sizes
    axes: tuple[Axes, ...]
    quick: bool = False

    def make(self) -> nn.Module:
        """The model in eval mode, the same at each call. Batch statistics are random: initial ones would hide mistakes."""
        torch.manual_seed(0)
        model = self.build().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None and module.running_var is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        return model


def floats(*shape: int) -> torch.Tensor:
    """Normal float32 values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    """int64 ids, none of them one of the first three, which models keep for padding and ends."""
    return torch.randint(3, vocabulary, shape, generator=torch.Generator().manual_seed(2))


def padding_mask(batch: int, sequence: int) -> torch.Tensor:
    """int64 ones; every second row ends in two zeros."""
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1::2, -2:] = 0
    return mask


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters and buffers, what is shared counted once."""
    storages: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
    return sum(storage.nbytes() for storage in storages.values())
