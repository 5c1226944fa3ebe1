"""math/comparison_and_bitwise.py: comparisons, logic and bits at every opset."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

OPSETS = (9, 11, 12, 13, 18, 20)
Results = tuple[torch.Tensor, ...]
X = torch.randn(3, 4).mul(2).round()
Y = torch.randn(4).mul(2).round()
I = torch.randint(-3, 4, (3, 4))  # noqa: E741
J = torch.tensor([1, 0, 3, 2])
B = torch.rand(3, 4) > 0.5
C = torch.rand(3, 4) > 0.5
NAN = torch.tensor([[float("nan"), 1.0, float("inf"), 2.0], [1.0, float("nan"), -float("inf"), 4.0]])


def comparisons(a: torch.Tensor, b: Any) -> Results:
    return a == b, a != b, a < b, a <= b, a > b, a >= b


def with_numbers(a: torch.Tensor) -> Results:
    return comparisons(a, 1) + comparisons(a, 1.5)


def close(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.isclose(a, b), torch.isclose(a, a * 1.000001), torch.isclose(a, b, equal_nan=True), torch.isclose(a, b, 0.5, 1.0)


def whole_close(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.isclose(a, b), torch.isclose(a, b, 0.5, 1.0)


def typed(fn: Any, *inputs: torch.Tensor, **options: Any) -> Case:
    label = f"{fn.__name__}-{str(inputs[0].dtype).removeprefix('torch.')}"
    return Case(fn, *inputs, name=label, **{"opsets": OPSETS, **options})


@cases(
    *(typed(comparisons, X.to(dtype), Y.to(dtype)) for dtype in (torch.float32, torch.float64, torch.float16)),
    *(typed(comparisons, I.to(dtype), J.to(dtype)) for dtype in (torch.int64, torch.int32, torch.int16, torch.int8)),
    typed(comparisons, I.abs().to(torch.uint8), J.to(torch.uint8)),
    typed(comparisons, B, C),
    typed(comparisons, X, I, dynamic={0: [0], 1: [0]}),
    typed(comparisons, NAN, NAN.flip(1)),
    *(typed(with_numbers, x) for x in (X, X.half(), I, I.int(), B)),
    typed(close, NAN, NAN.flip(1)),
    typed(whole_close, I, I + 1),
)
def test_comparisons(check):
    check()


def logic(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.logical_and(a, b), torch.logical_or(a, b), torch.logical_xor(a, b), torch.logical_not(a)


def bits_of_bools(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a & b, a | b, a ^ b, ~a, a & True, a | False, a.__and__(b), a.__or__(b), a.__xor__(b)


@cases(
    *(typed(logic, a, b) for a, b in ((B, C), (X, X.flip(0)), (I, I.flip(1)), (I.to(torch.int8), B))),
    typed(bits_of_bools, B, C, dynamic={0: [0], 1: [0]}),
)
def test_logic(check):
    check()


def bits(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a & b, a | b, a ^ b, a & 3, a | 1, torch.bitwise_xor(a, 2), 5 & a


def shifts(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a << b, a >> b, a << 2, a >> 1, torch.bitwise_left_shift(a, b), torch.bitwise_right_shift(a, 1), ~a


def far_shifts(a: torch.Tensor, b: torch.Tensor) -> Results:
    numbers = (0, 6, 7, 8, 63, 64)
    return a << b, a >> b, *(a >> number for number in numbers), *(a << number for number in numbers)


def far(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return integers up to the dtype's limits, and shifts, some beyond its bits."""
    info = torch.iinfo(dtype)
    by = torch.tensor([*range(info.bits + 2), 100, info.max, -1, info.min]).to(dtype)
    return torch.tensor([[5], [-5], [1], [0], [info.max], [info.min]]).to(dtype), by


@cases(
    *(
        typed(far_shifts, *far(dtype), opsets=(9, 13, 20))
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    ),
    *(typed(bits, I.to(dtype), J.to(dtype), opsets=(9, 13, 18, 20)) for dtype in (torch.int64, torch.int32, torch.int8)),
    typed(bits, I.abs().to(torch.uint8), J.to(torch.uint8), opsets=(9, 17)),
    typed(bits, torch.tensor([2**63 - 1, -(2**63), -1, 0]), torch.tensor([-1, -2, 2**62 + 5, -(2**63)]), opsets=(9, 17)),
    *(typed(shifts, I.to(dtype), J.to(dtype)) for dtype in (torch.int64, torch.int32, torch.int8)),
    typed(shifts, I.abs().to(torch.uint8), J.to(torch.uint8)),
)
def test_bits(check):
    check()


EXTREMES = torch.tensor([-torch.inf, torch.inf, torch.nan, 1.0, 0.0, -0.0])


def relations(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [a <= b, a >= b, a < b, a > b, a == b, a != b, a <= torch.nan, a >= -torch.inf, torch.inf <= a]


@cases(Case(relations, EXTREMES[:, None], EXTREMES, opsets=(9, 11, 12, 20), name="infinities and NaN"))
def test_extremes(check):
    check()


def whole_tensors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.any(a == b), a, b)


@cases(
    typed(whole_tensors, X, X.flip(0)),
    Case(lambda a, b: a <= b, X, Y, emits={"LessOrEqual"}, opsets=OPSETS, name="one node"),
    Case(lambda a, b: a == b, X, Y, emits={"Equal"}, opsets=OPSETS, name="one node"),
)
def test_what_is_emitted(check):
    check()
