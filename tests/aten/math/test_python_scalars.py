"""math/python_scalars.py: Python arithmetic on sizes and on tensors' numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(4, 6)


def whole(x: torch.Tensor) -> Any:
    n, m = x.shape
    sizes = n + m + 3, n * m, n - 9, (n // 2) * 2, (n - 7) // 2, n % 3, (n - 9) % 4, n**2, -n, max(n, m), min(n, m * 2)
    return tuple(x * size for size in sizes)


def real(x: torch.Tensor) -> Any:
    n, m = x.shape
    return x + n / 2, x * int(n / 2), x * math.ceil(n / 2), x * float(m), x + n / m, x * math.floor(m / n), x * (n * 0.5)


def shapes(x: torch.Tensor) -> Any:
    n, m = x.shape
    return torch.zeros(n + 1, m * 2), torch.arange(n * m).reshape(m, n), x.new_ones((n + 1) // 2), x.reshape(n * m, 1)


def truth(x: torch.Tensor) -> Any:
    n, m = x.shape
    return x + (n < 100), x * (n + m > 1), x.sum() * (n != 0)


def shifted(x: torch.Tensor) -> Any:
    n, m = x.shape
    sizes = (n - 1) // 4 + 1, (n - 7) // 3 + 5, (m - 8) // 4, (n + 2 - 9) // 5 - 1, n + 3 - 3, 2 - n + 5, (n * m - 6) // 2 + 3
    return tuple(x * size for size in sizes)


@cases(*(Case(fn, X, dynamic={0: [0, 1]}) for fn in (whole, real, shapes, truth, shifted)))
def test_sizes(check):
    check()


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_size_of_a_strided_convolution_is_one_division(capture: str) -> None:
    def grid(x: torch.Tensor) -> Any:
        return torch.zeros((x.shape[0] - 1) // 4 + 1)

    program = onnxexp.export(grid, (torch.ones(9),), dynamic_shapes=({0: "n"},), capture=capture)
    kinds = [node.op_type for node in program.model.graph]
    assert kinds.count("Div") == 1 and not {"Mod", "Sub"} & set(kinds), kinds
    for size in (0, 1, 4, 5, 8, 9):
        assert program(torch.ones(size)).shape == grid(torch.ones(size)).shape


def taken_out(x: torch.Tensor, counts: torch.Tensor) -> Any:
    total = counts.sum().item()
    torch._check(total >= 0)
    torch._check(total < 100)
    return x * total, torch.zeros(total), x + x.mean().item(), counts * x.sum().item(), x.double() * counts[0].item()


@cases(Case(taken_out, X, torch.tensor([1, 2, 3])))
def test_numbers_out_of_tensors(check):
    check()


def kept_a_tensor(x: torch.Tensor) -> Any:
    top = x.double().max()
    return x.half() * top.item(), x.half() * top, top + 1  # a number does not promote, a 0-d double does not either


@cases(Case(kept_a_tensor, X, rtol=2e-3, atol=2e-3))
def test_the_tensor_stays_what_it_is(check):
    check()


@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (4, 9)])
def test_the_root_of_a_dynamic_size(sizes) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x / math.sqrt(x.shape[1])

    program = onnxexp.export(scaled, (torch.randn(2, 3),), dynamic_axes={"x": {0: "a", 1: "b"}}, capture="export")
    torch.testing.assert_close(program(x := torch.randn(sizes)), scaled(x))
