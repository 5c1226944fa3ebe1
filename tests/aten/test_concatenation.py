"""shape/concatenation.py: concatenation and stacking."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X, Y, V, W = torch.randn(2, 3), torch.randn(2, 4), torch.randn(3), torch.randn(3)


@cases(
    Case(lambda x, y: torch.cat([x, y], 1), X, Y, dynamic={0: [0], 1: [0]}, emits={"Concat"}, name="cat"),
    Case(lambda x, y: torch.cat([x, y], -1), X, torch.randint(9, (2, 2)), dynamic={0: [0], 1: [0]}, name="cat_mixed"),
    Case(lambda x: torch.cat([torch.zeros(0), x]), X, emits={"Identity"}, name="cat_legacy_empty"),
    Case(lambda x: torch.cat([x]), X, dynamic={0: [0]}, emits={"Identity"}, name="cat_one"),
    Case(lambda x, y: torch.stack([x, y], -1), V, W, dynamic={0: [0], 1: [0]}, name="stack"),
    Case(lambda x, y: torch.hstack([x, y]), V, W, dynamic={0: [0], 1: [0]}, name="hstack"),
    Case(lambda x, y: torch.vstack([x, y]), V, X, name="vstack"),
    Case(lambda x, y: torch.dstack([x, y]), V, W, name="dstack"),
    Case(lambda x, y: torch.column_stack([x, y]), V, torch.randn(3, 2), name="column_stack"),
    Case(lambda x, y: torch.block_diag(x, y), X, Y, name="block_diag"),
    Case(lambda x, y: torch.block_diag(x, y, x), X, Y, dynamic={0: [0]}, emits={"Pad", "Concat"}, name="block_diag_of_rows"),
    Case(lambda x, y: torch.block_diag(y[0], x, x[0, 0], torch.zeros(0), x[:, :0]), X, Y > 0, name="block_diag_of_others"),
    Case(lambda x, y: torch.cartesian_prod(x, y), V, torch.randn(2), dynamic={0: [0], 1: [0]}, name="cartesian_prod"),
    *(
        Case(
            lambda x, y, i=i: torch.meshgrid(x, y, indexing=i), V, torch.randn(2), dynamic={0: [0], 1: [0]}, name=f"meshgrid_{i}"
        )
        for i in ("ij", "xy")
    ),
)
def test_join(check):
    check()
