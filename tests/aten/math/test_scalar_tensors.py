"""0-d tensors of another dtype than the other operand: results are torch's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxexp

Two = Callable[[Tensor, Tensor], Tensor]
INTEGERS = (torch.int64, torch.int16, torch.uint8, torch.bool)
FLOATS = (torch.float32, torch.float16, torch.float64)
FUNCTIONS: dict[str, Two] = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": torch.rsub,
    "mul": torch.mul,
    "div": torch.div,
    "div by trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "lerp": lambda x, y: torch.lerp(x, x + 1, y),
    "dist": torch.dist,
    "ldexp": torch.ldexp,
}


class All(torch.nn.Module):
    """Several functions of the same two tensors."""

    def __init__(self, functions: list[Two]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x, y) for function in self.functions)


def sample(dtype: torch.dtype, scalar: bool) -> Tensor:
    if dtype.is_floating_point:
        numbers = [[2.3, -3.7, 0.1], [11.3, -7.1, 1e4]]
    else:
        numbers = [[3, 11, 0], [7, 5, 100]]
    return torch.tensor(numbers[0][0] if scalar else numbers, dtype=torch.float64).to(dtype)


def rows() -> list[Any]:
    pairs = itertools.product((*FLOATS, *INTEGERS), repeat=2)
    return [
        pytest.param(
            one,
            other,
            id=f"{one}-{other}".replace("torch.", ""),
            marks=() if {one, other} & {torch.float16, torch.int16} else pytest.mark.full,
        )
        for one, other in pairs
    ]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(("one", "other"), rows())
@pytest.mark.parametrize("scalars", ["first", "second", "both"])
def test_scalar_tensors(one: torch.dtype, other: torch.dtype, scalars: str) -> None:
    inputs = sample(one, scalars != "second"), sample(other, scalars != "first")
    functions = []
    for function in FUNCTIONS.values():
        try:
            function(*inputs)
        except RuntimeError:  # torch refuses these dtypes
            continue
        functions.append(function)
    model = All(functions)
    program = onnxexp.export(model, inputs, capture="trace", check_sizes=False)
    for function, actual, expected in zip(functions, program(*inputs), model(*inputs), strict=True):
        rounding = {torch.float64: 1e-13, torch.float16: 1e-3}.get(expected.dtype, 1e-6)
        torch.testing.assert_close(
            actual, expected, rtol=rounding, atol=0, equal_nan=True, msg=lambda text, of=function: f"{of}: {text}"
        )


@pytest.mark.parametrize("function", [lambda x, k: torch.remainder(x, k + 1), lambda x, k: x * (k * 3 - k).floor()])
def test_float16_numbers_are_rounded(function: Two) -> None:
    """ONNX Runtime drops the rounding of float16 before a Cast to float32."""
    x, k = torch.linspace(-20, 20, 41), torch.tensor(0.1, dtype=torch.float16)
    program = onnxexp.export(function, (x, k))
    torch.testing.assert_close(program(x, k), function(x, k), rtol=1e-6, atol=1e-6)


EXTREMES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3.0, 1e-8, 123.0, 1e20, 1e31, 1e-310, 1e300]


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_atan2(dtype: torch.dtype, opset: int) -> None:
    """All pairs of infinities, zeros, NaN and large numbers; float64 has its digits."""
    numbers = torch.tensor(EXTREMES, dtype=torch.float64).to(dtype)
    inputs = numbers[:, None].clone(), numbers.clone()

    def function(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.atan2(y, x), torch.atan(x)

    program = onnxexp.export(function, inputs, opset_version=opset)
    for actual, expected in zip(program(*inputs), function(*inputs), strict=True):
        rounding = {torch.float64: 1e-15, torch.float16: 2e-3}.get(dtype, 1e-6)
        torch.testing.assert_close(actual, expected, rtol=rounding, atol=0, equal_nan=True)
