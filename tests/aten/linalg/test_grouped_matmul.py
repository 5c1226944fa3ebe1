"""linalg/matmul.py: grouped matrix products; and histograms."""

from __future__ import annotations

from typing import Any

import torch
import transformers.integrations.moe  # noqa: F401  (registers the operator that mixtures of experts are exported with)

from onnxexp.testing import Case, cases

WEIGHTS = torch.randn(3, 4, 5)
ROWS = torch.randn(7, 4)


class Experts(torch.nn.Module):
    """Experts whose matrices are one parameter, transposed as in `transformers`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(WEIGHTS.transpose(1, 2).contiguous())

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> Any:
        return torch.ops.transformers.grouped_mm_fallback(x, self.weight.transpose(-2, -1), ends)


def T(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@cases(
    Case(Experts(), ROWS, T([2, 3, 7]), dynamic={0: [0]}, name="all rows"),
    Case(Experts(), ROWS, T([0, 4, 4]), name="empty groups and rows after the last"),
    Case(
        lambda x, w, e: torch.ops.transformers.grouped_mm_fallback(x, w, e),
        ROWS,
        WEIGHTS,
        T([1, 1, 7]),
        name="matrices as inputs",
    ),
    Case(lambda x: torch.histc(x, 5, -1, 1), torch.randn(3, 4), dynamic={0: [0]}, name="histc"),
    Case(
        lambda x: torch.histc(x, 4, 0, 3), torch.tensor([0.0, 1, 1, 3, 3, 3, 2, 5, -1]), name="whole numbers, both ends, outside"
    ),
    Case(lambda x: torch.histc(x, 1, 0, 2), torch.rand(6), name="one bin"),
)
def test_grouped(check: Any) -> None:
    check()
