"""The description that every model here shares, and helpers of their factories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Sizes = Mapping[str, int]
Inputs = tuple[tuple[Any, ...], dict[str, Any]]

CLASSIC_OPSETS = (9, 11, 13, 15, 17, 18, 20, 21, 23, 24, 26)
TRANSFORMER_OPSETS = (13, 17, 20, 23)


@dataclass(frozen=True)
class ModelCase:
    """A model, how to call it, and which of its axes vary.

    ``build`` returns a model in eval mode, with the same weights each time. ``inputs(sizes)`` returns ``(args, kwargs)``, the
    same for the same sizes. ``dynamic_shapes`` has torch.export's structure with names as leaves. The exported model must be
    right at ``sizes``, those of the example, and at each of ``other_sizes``. ``quick_opset`` is the opset that the quick tier
    takes.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[Sizes], Inputs]
    sizes: Sizes
    other_sizes: tuple[Sizes, ...]
    dynamic_shapes: Any
    opsets: tuple[int, ...]
    quick_opset: int = 20
    atol: float = 1e-4
    rtol: float = 1e-4

    def __str__(self) -> str:
        return self.name


def registry(cases: list[ModelCase]) -> dict[str, ModelCase]:
    """Return the cases by name; raise ValueError for a name that is given twice."""
    found = {case.name: case for case in cases}
    if len(found) != len(cases):
        raise ValueError("two model cases have the same name")
    return found


def seeded(build: Callable[[], nn.Module], seed: int = 0) -> Callable[[], nn.Module]:
    """Wrap ``build`` with a fixed seed and eval mode; the random state stays as it is."""

    def factory() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build().eval()

    return factory


def floats(*shape: int, seed: int = 1) -> torch.Tensor:
    """Draw normal float32 values of that shape, the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(vocabulary: int, *shape: int, seed: int = 2) -> torch.Tensor:
    """Draw int64 token ids in [3, ``vocabulary``), since 0 to 2 are padding and ends."""
    return torch.randint(3, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def padding_mask(batch: int, sequence: int, left: bool = False) -> torch.Tensor:
    """Build a (batch, sequence) int64 mask of ones.

    Odd rows end (``left``: start) with two zeros.
    """
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1::2, slice(None, 2) if left else slice(-2, None)] = 0
    return mask
