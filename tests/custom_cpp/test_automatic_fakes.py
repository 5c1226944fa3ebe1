"""Operators without fake kernels under torch.export."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_custom_cpp import register_op

pytestmark = pytest.mark.usefixtures("registrations")
LIBRARY = torch.library.Library("onnxexp_fakes", "FRAGMENT")


def defined(name: str, schema: str, kernel: Callable[..., Any]) -> Any:
    """Define an operator with a kernel for the CPU alone."""
    LIBRARY.define(f"{name}{schema}")
    LIBRARY.impl(name, kernel, "CPU")
    register_op(f"onnxexp_fakes::{name}", onnx=f"fakes::{name}")
    return getattr(torch.ops.onnxexp_fakes, name)


class Lambda(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def shapes(function: Callable[..., Any], *example: Tensor, axes: Any) -> list[list[str]]:
    """Return the shapes of the exported outputs."""
    program = onnxexp.export(Lambda(function), example, dynamic_shapes=(axes,), capture="export")
    return [[str(size) for size in output.shape or ()] for output in program.model.graph.outputs]


RULES: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "same": (lambda x: x.clone(), ["n", "6"]),
    "transposed": (lambda x: x.t().contiguous(), ["6", "n"]),
    "twice": (lambda x: torch.cat([x, x]), ["2*n", "6"]),
    "longer": (lambda x: torch.cat([x, x.new_zeros(3, 6)]), ["n + 3", "6"]),
    "flat": (lambda x: x.reshape(-1).clone(), ["6*n"]),
    "shorter": (lambda x: x[:-1].clone(), ["n - 1", "6"]),
    "all of them": (lambda x: x.sum((0, 1)), []),
    "fixed": (lambda x: x.new_zeros(4, 2), ["4", "2"]),
}


@pytest.mark.parametrize("name", RULES)
def test_a_size_that_follows_from_one_input(name: str) -> None:
    kernel, expected = RULES[name]
    operator = defined(f"rule_{name.replace(' ', '_')}", "(Tensor x) -> Tensor", kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shapes(operator, torch.randn(5, 6), axes=({0: "n"},)) == [expected]


def test_a_size_that_is_halved_and_rounded() -> None:
    operator = defined("pooled", "(Tensor x) -> Tensor", lambda x: torch.max_pool1d(x[None], 3, 2, 1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((_, size),) = shapes(operator, torch.randn(2, 9), axes=({1: "n"},))
    assert [eval(size, {"n": n}) for n in (1, 2, 9, 10, 31)] == [1, 1, 5, 5, 16]


def test_sizes_of_two_inputs() -> None:
    operator = defined(
        "outer", "(Tensor x, Tensor y) -> (Tensor, Tensor)", lambda x, y: (x[:, None] * y[None], torch.cat([x, y]))
    )
    example = torch.randn(5), torch.randn(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shapes(operator, *example, axes=({0: "n"}, {0: "m"})) == [["n", "m"], ["m + n"]]


def test_a_kernel_that_takes_some_sizes_only() -> None:
    def pairs(x: Tensor) -> Tensor:
        if x.shape[0] % 4:
            raise ValueError("the size must be divisible by 4")
        return x.reshape(-1, 4).sum(1)

    operator = defined("fours", "(Tensor x) -> Tensor", pairs)
    assert shapes(operator, torch.randn(8), axes=({0: "n"},)) in ([["n//4"]], [["(n//4)"]])


def test_a_size_that_depends_on_values_is_new() -> None:
    operator = defined("positive", "(Tensor x) -> Tensor", lambda x: x[x > 0].clone())
    with pytest.warns(UserWarning, match=r"onnxexp_fakes::positive has no fake kernel; axis 0 of its output 0 follows"):
        ((size,),) = shapes(operator, torch.randn(8), axes=({0: "n"},))
    assert size not in ("n", "0", "8")


def test_a_rule_that_is_not_clear_is_a_warning() -> None:
    def only_five(x: Tensor, y: Tensor) -> Tensor:
        if x.shape != (5,) or y.shape != (5,):
            raise ValueError("five")
        return x + y

    operator = defined("only_five", "(Tensor x, Tensor y) -> Tensor", only_five)
    with pytest.warns(UserWarning, match=r"could be .* or .*, and is taken for .*register_fake\('onnxexp_fakes::only_five'\)"):
        shapes(operator, torch.randn(5), torch.randn(5), axes=({0: "n"}, {0: "m"}))


def test_a_kernel_that_does_not_run() -> None:
    def never(x: Tensor) -> Tensor:
        if not x.isnan().all():
            raise ValueError("no number")
        return x.clone()

    operator = defined("never", "(Tensor x) -> Tensor", never)
    with pytest.raises(
        onnxexp.CaptureError, match=r"onnxexp_fakes::never has no fake kernel, and its kernel runs neither on zeros"
    ):
        onnxexp.export(Lambda(operator), (torch.full((3,), torch.nan),), capture="export")


def test_the_author_s_fake_kernel_wins() -> None:
    called = []
    operator = defined("own_fake", "(Tensor x) -> Tensor", lambda x: called.append(1) or x.clone())
    torch.library.register_fake("onnxexp_fakes::own_fake", lambda x: x.new_empty(x.shape[0] * 3))
    assert shapes(operator, torch.randn(5), axes=({0: "n"},)) == [["3*n"]]
    assert not called


def test_nothing_stays_registered() -> None:
    operator = defined("for_now", "(Tensor x) -> Tensor", lambda x: x.clone())
    shapes(operator, torch.randn(5), axes=({0: "n"},))
    with pytest.raises(Exception, match=r"for_now"):
        torch.export.export(Lambda(operator), (torch.randn(5),))
