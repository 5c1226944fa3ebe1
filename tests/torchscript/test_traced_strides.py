"""Strides of contiguous tensors in a trace."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onnxexp import CaptureError

from .running import Program, exported, programs

X, MORE, ONE = torch.arange(40.0).reshape(4, 5, 2), torch.arange(96.0).reshape(6, 8, 2), torch.ones(2, 1, 2)
BOTH_AXES = [{0, 1}]


def overlapping(x: Tensor) -> Tensor:
    x = torch.nn.functional.pad(x, (0, 0, 0, 3))
    first, second, third = x.stride()
    return x.as_strided((x.size(0), x.size(1) - 3, 2, 4), (first, second, third, second))


def one_by_one(x: Tensor) -> Tensor:
    return (x + 0).as_strided([x.size(1), x.size(0)], [x.stride(-2), x.stride(dim=0)])


@programs(
    *(
        Program(fn, X, at=[(MORE,), (ONE,)], dynamic=BOTH_AXES, captures=("trace",), opsets=(9, 20))
        for fn in (overlapping, one_by_one)
    )
)
def test_strides_of_dynamic_sizes(run) -> None:
    run()


def transposed(x: Tensor) -> Tensor:
    x = x.transpose(0, 1)
    return x.as_strided([x.size(0), x.size(1)], [x.stride(0), x.stride(1)])


def test_other_strides_stay_numbers() -> None:
    with pytest.raises(CaptureError, match="the trace fixes what depends on a dynamic axis"):
        exported(transposed, (X,), capture="trace", dynamic_shapes=({0: "n", 1: "m"},))


def test_strides_outside_of_traces_are_torchs() -> None:
    exported(overlapping, (X,), capture="trace")
    assert X.stride() == (10, 2, 1) and X.transpose(0, 1).stride(0) == 2
