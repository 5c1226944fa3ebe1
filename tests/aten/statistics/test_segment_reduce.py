"""statistics/segment_reduce.py: reductions of segments by lengths and offsets."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (11, 13, 20)


def segments(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
    reductions = [torch.segment_reduce(x, reduce, lengths=lengths) for reduce in ("sum", "mean", "max", "min", "prod")]
    started = [torch.segment_reduce(x, reduce, lengths=lengths, initial=2.0) for reduce in ("sum", "max", "mean")]
    return (*reductions, *started, torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 2, 5])))


@cases(
    Case(segments, torch.randn(5, 3), torch.tensor([2, 3]), opsets=OPSETS),
    Case(lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([0, 3, 2])), torch.randn(5), name="empty", opsets=OPSETS),
)
def test_segments(check):
    check()
