"""creation/filled_tensors.py: tensors of one number, of static and dynamic sizes."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn


@cases(
    Case(lambda x: torch.zeros(x.shape[0], 3) + x, r(2, 3), dynamic={0: [0]}, name="zeros"),
    Case(lambda x: torch.ones(2, 3) + x, r(2, 3), emits={"Add"}, name="ones"),
    Case(lambda x: torch.full((x.shape[0], 2), 3.5) + x, r(2, 2), dynamic={0: [0]}, name="full"),
    Case(lambda x: torch.full((3,), x.shape[0]) + 1, r(2, 2), dynamic={0: [0]}, name="full_size"),
    Case(
        lambda x: (torch.full_like(x, 2), torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32)),
        r(2, 2),
        dynamic={0: [0]},
        name="like",
    ),
    Case(lambda x: x.new_full((x.shape[0], 1), 7) + x.new_zeros(2) + x.new_ones([]), r(2, 2), dynamic={0: [0]}, name="new"),
    Case(lambda x: torch.empty(2, 0).sum() + x, r(2), name="empty"),
    Case(lambda x: torch.scalar_tensor(3.0, dtype=torch.float64) * x, r(2), name="scalar_tensor"),
)
def test_constants(check):
    check()
