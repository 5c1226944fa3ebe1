"""shape/padding.py: all modes and ranks, negative and dynamic amounts, all dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)

OPSETS = (9, 11, 13, 19)
X = {1: torch.randn(2, 3, 11), 2: torch.randn(2, 3, 12, 10), 3: torch.randn(2, 2, 6, 7, 8)}


def by(amounts: tuple[int, ...], mode: str = "constant", value: float | None = None) -> Callable[[torch.Tensor], torch.Tensor]:
    def pad(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, amounts, mode, value)

    pad.__name__ = f"{mode}{amounts}"
    return pad


def cropped_around(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[1] > 1  # eager copies from a column that it has not written
    x = x + 0
    x[0] = 0
    return F.pad(x, (1, -1), mode="circular")


@cases(
    Case(cropped_around, torch.randn(3, 4), dynamic={0: [0, 1]}, opsets=(9, 10, 11, 20)),
    Case(by((1, 2)), X[2], dynamic={0: [0, 3]}, opsets=(*OPSETS, 26), emits={"Pad"}),
    Case(by((1, 2, 0, 3, 1, 0), value=1.5), X[2], dynamic={0: [0, 3]}, opsets=OPSETS, emits={"Pad"}),
    Case(by((1, 2, 0, 3, 1, 0, 2, 2), value=float("-inf")), X[2], opsets=OPSETS),
    Case(by((-1, 2, 0, -3), value=2.0), X[2], dynamic={0: [0, 2, 3]}, opsets=OPSETS),
    Case(by((-1, -1)), X[2], opsets=OPSETS, emits={"Slice"}),
    *(Case(by(amounts, "reflect"), torch.randn(2, 4, 2, 6)) for amounts in ((1, 0, -1, 1), (-2, 3, 1, -1))),
    Case(by((-1, 2), "reflect"), torch.randn(4, 3), dynamic={0: [0, 1]}),
    Case(by((1, 1), value=-1.0), X[1][0], dynamic={0: [1]}, opsets=OPSETS),
    *(
        Case(by((1, 2, 3, 4), value=1), (X[2] * 3).to(dtype), opsets=OPSETS, name=str(dtype))
        for dtype in (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    ),
)
def test_constant(check):
    check()


@cases(
    *(
        Case(by(amounts, mode), x, dynamic={0: [0, x.dim() - 1]}, opsets=OPSETS)
        for mode in ("reflect", "replicate", "circular")
        for x, amounts in (
            (X[1], (3, 2)),
            (X[2], (1, 2, 3, 0)),
            (X[2][0], (1, 0, 0, 1)),
            (X[3], (1, 2, 3, 1, 2, 1)),
            (X[2], (-1, 2, 1, -3)),
        )
    ),
    *(Case(by((1, 2, 3, 0), mode), (X[2] * 9).to(torch.int64), opsets=OPSETS) for mode in ("reflect", "replicate", "circular")),
)
def test_from_the_inside(check):
    check()


def to_twenty(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 20 - x.shape[3], 1, 1))


def by_half(mode: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def pad(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (x.shape[3] // 2, 1, 1, 1), mode)

    pad.__name__ = f"by_half_{mode}"
    return pad


@cases(
    Case(to_twenty, X[2], dynamic={0: [0, 3]}, opsets=(11, 18, 23)),
    *(
        Case(by_half(mode), X[2], dynamic={0: [0, 3]}, opsets=(11, 18, 23))
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
)
def test_amounts_at_run_time(check):
    check()


@cases(Case(lambda x: F.pad(x, (-4, 5, 3, -3), mode="replicate"), X[2], dynamic={0: [2, 3]}, opsets=(9, 18)))
def test_replicated_borders_of_what_a_crop_leaves(check):
    check()


def test_amounts_at_run_time_need_opset_11():
    with pytest.raises(Exception, match="opset_version=11"):
        check_case(Case(to_twenty, X[2], dynamic={0: [3]}), 9, dynamic=True)


@cases(
    *(
        Case(module, x, dynamic={0: [0]}, opsets=(9, 18))
        for module, x in (
            (torch.nn.ReflectionPad1d(2), X[1]),
            (torch.nn.ReflectionPad2d((1, 2, 0, 1)), X[2]),
            (torch.nn.ReflectionPad3d(1), X[3]),
            (torch.nn.ReplicationPad3d(1), X[3]),
            (torch.nn.ZeroPad2d(1), X[2]),
            (torch.nn.ConstantPad1d(1, 3.5), X[1]),
            (torch.nn.CircularPad2d(2), X[2]),
        )
    )
)
def test_modules(check: Any):
    check()
