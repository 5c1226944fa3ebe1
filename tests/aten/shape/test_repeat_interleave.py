"""shape/repeat_interleave.py: each element repeated, as often as an input says."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4)


@cases(
    Case(lambda x: x.repeat_interleave(2, 0), X, dynamic={0: [0]}, name="first"),
    Case(lambda x: x.repeat_interleave(2, 1), X, dynamic={0: [0]}, emits={"Gather"}, name="table"),
    Case(lambda x: x.repeat_interleave(2), X, dynamic={0: [0]}, name="flat"),
    Case(lambda x, n: torch.repeat_interleave(x, n, 0, output_size=6), X, torch.tensor([1, 5, 0]), opsets=(11, 20), name="each"),
)
def test_repeat_interleave(check):
    check()
