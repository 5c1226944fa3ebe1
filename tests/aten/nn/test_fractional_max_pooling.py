"""nn/pooling.py: windows at given samples, in 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (11, 13, 20)


def pooled(dims: int, samples: torch.Tensor, kernel: Any = 2, output: Any = 3):
    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        function = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
        return function(x, kernel, output_size=output, return_indices=True, _random_samples=samples)

    return call


@cases(
    Case(pooled(2, torch.rand(2, 3, 2)), torch.randn(2, 3, 7, 8), name="fractional_max_pool2d", opsets=OPSETS),
    Case(pooled(2, torch.rand(1, 3, 2)), torch.randn(3, 7, 8), name="unbatched", opsets=OPSETS),
    Case(pooled(3, torch.rand(2, 2, 3)), torch.randn(2, 2, 5, 6, 7), name="fractional_max_pool3d", opsets=OPSETS),
    Case(pooled(2, torch.rand(2, 3, 2), (2, 3), (1, 4)), torch.randn(2, 3, 7, 9), name="one window of 2", opsets=OPSETS),
    Case(
        pooled(3, torch.rand(1, 2, 3).double(), (1, 3, 2), (4, 1, 5)),
        torch.randn(1, 2, 6, 4, 11).double(),
        name="uneven windows of 3",
        opsets=OPSETS,
    ),
    Case(pooled(2, torch.rand(2, 3, 2)), torch.randint(0, 2, (2, 3, 7, 8)).float(), name="the first of ties", opsets=OPSETS),
)
def test_fractional_pooling(check):
    check()
