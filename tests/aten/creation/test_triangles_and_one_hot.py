"""creation/triangles_and_one_hot.py: identities, triangles, one-hot rows."""

from __future__ import annotations

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn


@cases(
    Case(lambda x: torch.eye(x.shape[0]) + x, r(3, 3), emits={"Add"}, name="eye"),
    Case(lambda x: torch.eye(x.shape[0], 2, dtype=torch.int64) + x, r(3, 2), dynamic={0: [0]}, name="eye_dynamic"),
    Case(lambda x: x.tril() + x.triu(1), r(3, 4), dynamic={0: [0, 1]}, emits={"Trilu", "Add"}, name="triangles"),
    Case(lambda x: x.tril(-1), torch.randint(5, (2, 3, 4)), dynamic={0: [0, 1]}, emits={"Trilu"}, name="int64"),
    Case(lambda x: x.triu(-1), torch.randint(5, (2, 3, 4), dtype=torch.int8), name="int8"),
    Case(lambda x: torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril(), r(3), dynamic={0: [0]}, name="causal_mask"),
    Case(lambda x: torch.tril_indices(3, 3) + x, torch.ones(2, 6, dtype=torch.int64), emits={"Add"}, name="tril_indices"),
    Case(
        lambda x: torch.nn.functional.one_hot(x, 5), torch.randint(5, (2, 3)), dynamic={0: [0]}, emits={"OneHot"}, name="one_hot"
    ),
)
def test_patterns(check):
    check()


class Corners(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = x.shape
        return torch.triu_indices(rows, columns, 1), torch.tril_indices(rows, columns, dtype=torch.int32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [9, 20])
def test_triangle_indices_of_traced_sizes(opset: int) -> None:
    options = {"capture": "trace", "opset_version": opset, "dynamic_shapes": {"x": {0: "n", 1: "m"}}}
    program = onnxexp.export(Corners(), (torch.ones(3, 4),), **options)
    for sizes in ((3, 4), (5, 2), (1, 1), (1, 6)):
        torch.testing.assert_close(program(torch.ones(sizes)), Corners()(torch.ones(sizes)))
