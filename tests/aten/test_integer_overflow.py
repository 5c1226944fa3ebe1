"""Casts, sums, products and powers of integers wrap around as in eager."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

OPSETS = (9, 13, 20)
LARGE = torch.tensor([3e9, -3e9, 1e20, 2147483647.0, 4294967297.0, 2.5, -2.5, float("inf"), float("-inf"), float("nan")])
SMALL = torch.tensor([300.0, -300.0, 128.0, 2.5, -129.0, -1.5])
NEAR = torch.tensor([2**31 - 1, 2**30, 65536, -(2**31), 46341], dtype=torch.int32)
LONGS = torch.tensor([2**31, 2**32 + 5, -(2**31) - 1, 300, -1])


def to_wide(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.to(torch.int32), x.double().int(), x.to(torch.int64), x.int() * 3


def to_narrow(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.to(torch.uint8), x.to(torch.int8), x.to(torch.int16)


def arithmetic(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    products = x * x, x * 3 + 7, x**3, x.square(), torch.addcmul(x, x, x, value=3), x[None] @ x[:, None]
    return *products, x + x, -x - 2, x << 3, x.cumprod(0, dtype=torch.int32), x.sum(0, dtype=torch.int32)


@cases(
    Case(to_wide, LARGE, dynamic={0: [0]}, opsets=OPSETS),
    Case(to_narrow, SMALL, dynamic={0: [0]}, opsets=OPSETS),
    Case(lambda x: (x.int(), x.to(torch.uint8), x * x * x), LONGS, dynamic={0: [0]}, opsets=OPSETS, name="longs"),
    Case(arithmetic, NEAR, opsets=(13, 20)),
)
def test_integers_wrap_around(check) -> None:
    check()
