"""creation/ranges.py: ranges of integers and of floats, of dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn


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
