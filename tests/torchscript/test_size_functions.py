"""Functions of `math` on sizes in a trace, and operators that take shape tensors."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.onnx.operators import reshape_from_tensor_shape, shape_as_tensor

import onnxexp
from onnxexp import CaptureError, LoweringError

from .running import Program, exported, programs

X, MORE, ONE = torch.arange(20.0).reshape(4, 5), torch.arange(48.0).reshape(6, 8), torch.ones(2, 1)
BOTH_AXES = [{0, 1}]


def scaled(x: Tensor) -> Tensor:
    return x @ x.t() / math.sqrt(x.size(-1)) + math.exp(-x.size(0))


def levels(x: Tensor) -> Tensor:
    return x * math.log2(x.size(1)) + math.ceil(x.size(0) / 2)


def half(x: Tensor) -> Tensor:
    return x[:, : math.ceil(x.size(1) / 2)]


def padded(x: Tensor) -> Tensor:
    return F.pad(x, (0, math.ceil(x.size(1) / 4) * 4 - x.size(1)))


def repeated(x: Tensor) -> Tensor:
    return x.view(math.floor(x.size(0) / 2), 2, -1).repeat(math.ceil(x.size(0) / 3), 1, 1)


@programs(
    *(
        Program(fn, X, at=[(MORE,), (ONE,)], dynamic=BOTH_AXES, captures=("trace",), opsets=(11 if fn is padded else 9, 13, 20))
        for fn in (scaled, levels, half, padded, repeated)
    ),
    Program(scaled, X.double(), at=[(MORE.double(),)], dynamic=BOTH_AXES, captures=("trace",), opsets=(13, 20), name="scaled64"),
)
def test_functions_of_sizes_are_recorded(run) -> None:
    run()


def longest(x: Tensor, y: Tensor) -> Tensor:
    return x.new_zeros(max(x.shape[0], y.shape[0]), 2) + x.sum() + y.sum()


def shortest(x: Tensor, y: Tensor) -> Tensor:
    count = min(size for size in (x.shape[0], 7, y.shape[0]))
    return x[:count] * y[:count]


def square(x: Tensor, y: Tensor) -> Tensor:
    size = max(x.shape)
    return F.pad(x, (0, size - x.shape[1], 0, size - x.shape[0])) / max(1, len(y)) + max(3, 2, key=lambda number: -number)


FIVE, THREE = torch.arange(10.0).reshape(5, 2), torch.arange(6.0).reshape(3, 2)


@programs(
    *(
        Program(fn, FIVE, other, at=[(THREE, FIVE), (THREE, THREE), (FIVE, THREE), (MORE[:, :2], FIVE)], dynamic=[{0}, {0}],
                captures=("trace",), opsets=(11 if fn is square else 9, 13, 20), name=f"{fn.__name__} {len(other)}")
        for fn in (longest, shortest, square) for other in (THREE, FIVE)
    ),
)  # fmt: skip
def test_the_larger_of_two_sizes_is_recorded(run) -> None:
    run()


def test_functions_of_values_are_not() -> None:
    with pytest.raises(CaptureError, match="the trace fixes what depends on the contents of a tensor"):
        exported(lambda x: x + math.sqrt(x.sum()), (X,), capture="trace", dynamic_shapes=({0: "n"},))
    assert math.sqrt(4) == 2 and math.ceil(2.5) == 3


def shapes(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch._shape_as_tensor(x), shape_as_tensor(x) + 1


def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch._dim_arange(x, 1), x + torch._dim_arange(x, -1)


def turned(x: Tensor) -> Tensor:
    return reshape_from_tensor_shape(x, shape_as_tensor(x).flip(0))


def joined(x: Tensor) -> Tensor:
    return reshape_from_tensor_shape(x, torch.cat([shape_as_tensor(x)[1:], torch.tensor([-1])]))


@programs(
    *(
        Program(fn, X, at=[(MORE,), (ONE,)], dynamic=BOTH_AXES, captures=captures, opsets=(9, 13, 20))
        for fn, captures in (
            (shapes, ("trace", "export")),
            (counted, ("trace", "export")),
            (turned, ("trace", "export")),
            (joined, ("trace", "export")),
        )
    )
)
def test_shapes_as_tensors(run) -> None:
    run()


def test_constants_of_numbers_are_no_alarm() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        onnxexp.export(lambda x: x + torch.tensor([1.0]), (X,), capture="trace")
    assert not [each for each in told if "constants" in str(each.message)]


def spaced(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.linspace(0, 1, x.size(1) // 2), torch.linspace(-2, x.size(0), x.size(1), dtype=torch.float64)


@programs(
    Program(spaced, X, at=[(MORE,), (ONE,), (X[:, :3],)], dynamic=BOTH_AXES, captures=("trace", "export"), opsets=(9, 13, 20))
)
def test_linspace_with_steps_of_the_run_time(run) -> None:
    run()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.histc(x, bins=x.size(1), min=-3.0, max=3.0), "the number of bins must be known at export"),
        (lambda x: torch.diag_embed(x, x.size(1) // 2), "the offset must be known at export"),
    ],
)
def test_numbers_that_must_be_known(call, message) -> None:
    with pytest.raises(LoweringError, match=message):
        exported(call, (X,), capture="trace", dynamic_shapes=({1: "n"},))
