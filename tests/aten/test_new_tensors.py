"""creation/: constants, ranges, triangles and one-hot rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxexp
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


def fractional(start: float, more: float, step: float, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that makes a range of integers with fractional bounds."""

    def numbers(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(start, x.shape[0] + more, step, dtype=dtype)

    numbers.__name__ = f"from_{start}_by_{step}_{dtype}"
    return numbers


@cases(
    Case(lambda x: torch.arange(x.shape[0]) * x, r(4), dynamic={0: [0]}, name="count"),
    Case(lambda x: torch.arange(2, x.shape[0] * 2, 3), r(4, 5), dynamic={0: [0]}, name="step"),
    Case(lambda x: torch.arange(2, x.shape[0] * 2, 0.7), r(4, 5), dynamic={0: [0]}, name="float_step"),
    Case(lambda x: torch.arange(x.shape[0], 0, -1), r(4, 5), dynamic={0: [0]}, name="down"),
    Case(lambda x: torch.arange(0, x.shape[0], dtype=torch.int32), r(4, 5), dynamic={0: [0]}, name="int32"),
    Case(lambda x: torch.arange(x.shape[0], dtype=torch.float16), r(4, 5), dynamic={0: [0]}, name="half"),
    *(
        Case(fractional(*bounds, dtype), r(4, 5), dynamic={0: [0]}, opsets=(9, 10, 11, 20))
        for dtype in (torch.int64, torch.int32, torch.uint8)
        for bounds in ((0.5, 0.5, 1), (0, 0.5, 1), (0.5, 0, 1.5), (-1.5, 0.25, 2))
    ),
    Case(
        lambda x: torch.arange(2.7, 1.2 - x.shape[0], -1.4, dtype=torch.int32), r(4, 5), dynamic={0: [0]}, name="fractional_down"
    ),
    Case(lambda x: torch.arange(5) + x, r(5), emits={"Add"}, name="static"),
    Case(lambda x: torch.linspace(0, 1, x.shape[0]) + x, r(5), emits={"Add"}, name="linspace"),
    Case(lambda x: torch.logspace(0, 1, 5) + x, r(5), emits={"Add"}, name="logspace"),
)
def test_ranges(check):
    check()


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
