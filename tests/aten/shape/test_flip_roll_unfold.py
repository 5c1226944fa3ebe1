"""shape/flip_roll_unfold.py: flips, rotations, rolls, and windows along an axis."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4)


@cases(
    Case(lambda x: x.flip([0, 1]), X, dynamic={0: [0]}, emits={"Slice"}, name="flip"),
    Case(torch.fliplr, X, dynamic={0: [0]}, name="fliplr"),
    Case(torch.flipud, X, dynamic={0: [0]}, name="flipud"),
    *(Case(lambda x, k=k: torch.rot90(x, k), X, dynamic={0: [0]}, opsets=(9, 11, 20), name=f"rot90_{k}") for k in (1, 2, -1)),
    Case(lambda x: torch.roll(x, (1, -1), (0, 1)), X, dynamic={0: [0]}, name="roll"),
    Case(lambda x: torch.roll(x, 3), X, name="roll_flat"),
    Case(lambda x: torch.roll(x, 5, 0), X, dynamic={0: [0]}, opsets=(10, 13, 20), name="roll_dynamic"),
    Case(lambda x: x.unfold(1, 3, 2), torch.randn(2, 8), dynamic={0: [0]}, emits={"Gather"}, name="unfold"),
    Case(lambda x: x.unfold(1, 3, 2), torch.randn(2, 8, 2), dynamic={0: [0, 1]}, name="unfold_dynamic"),
)
def test_order(check):
    check()
