"""nn/im2col.py: unfold and fold, at edges, unbatched, with adjacent windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)

IMAGE = torch.randn(2, 8, 12, 10)
SMALL = (6, 7)


def unfold(kernel: Any, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.unfold(x, kernel, **options)


def fold(kernel: Any, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.fold(x, SMALL, kernel, **options)


@cases(
    Case(unfold(3, padding=1, stride=2), IMAGE, dynamic={0: [0, 2]}, opsets=(9, 13, 22), name="strided"),
    Case(unfold((3, 2), padding=(0, 1), stride=(3, 1), dilation=(1, 2)), IMAGE[0], opsets=(9, 13, 22), name="unbatched"),
    Case(unfold((3, 2), stride=(3, 2)), IMAGE, dynamic={0: [0]}, opsets=(9, 22), emits={"Reshape", "Transpose"}, name="tiles"),
    Case(unfold(3, padding=1), IMAGE[:0], dynamic={0: [2, 3]}, opsets=(9, 22), name="none"),
)
def test_unfold(check):
    check()


@cases(
    Case(fold(3, padding=1), torch.randn(2, 18, 42), dynamic={0: [0]}, opsets=(16, 18, 22), emits={"Col2Im"}, name="batched"),
    Case(fold((3, 2), padding=(0, 1), stride=(1, 2), dilation=(2, 1)), torch.randn(2, 12, 8), opsets=(18, 22), name="all"),
    Case(fold(3, padding=1), torch.randn(18, 42), opsets=(18, 22), name="unbatched"),
    Case(fold(3, padding=1), torch.randn(18, 42).double(), opsets=(18,), rtol=1e-5, atol=1e-6, name="double"),
)
def test_fold(check):
    check()


@cases(Case(fold(3, padding=1), torch.randn(2, 18, 42), opsets=(9, 13), name="fold"))
def test_fold_below_opset_16(check):
    check()
