"""Conditions on sizes as numbers: True is 1 and False is 0, as in Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

import onnxexp
from tests.core.test_restricted_calls import Model

NUMBERS: dict[str, Callable[[Any], Any]] = {
    "equals 0": lambda n: (n > 3) == 0,
    "does not equal 0": lambda n: (n > 3) != 0,
    "equals 1": lambda n: (n > 3) == 1,
    "does not equal 2": lambda n: (n > 3) != 2,
    "equals True": lambda n: (n > 3) == True,  # noqa: E712
    "does not equal False": lambda n: (n > 3) != False,  # noqa: E712
    "equal conditions": lambda n: (n > 3) == (n > 5),
    "different conditions": lambda n: (n > 3) != (n > 5),
    "equals a size": lambda n: (n > 3) == n // 4,
    "both": lambda n: (n > 3) & (n > 5),
}
OF_TRACES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda n: (n > 3) + (n > 1),
    "sum with a size": lambda n: n + (n % 2 == 1),
    "product": lambda n: (n > 3) * 2,
    "less": lambda n: (n > 3) < 1,
    "one of two": lambda n: (n > 3) ^ (n > 5),
}
"""Programs that torch.export refuses, or takes at some sizes only."""
CASES = [(name, capture) for capture in ("export", "trace") for name in NUMBERS] + [(name, "trace") for name in OF_TRACES]


@pytest.mark.parametrize(("name", "capture"), CASES)
def test_a_condition_is_a_number(name: str, capture: str) -> None:
    number = {**NUMBERS, **OF_TRACES}[name]
    model = Model(lambda x: x + number(x.shape[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(model, (torch.rand(5),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (5, 1, 2, 3, 4, 6, 9):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))


def test_a_trace_pads_by_a_condition() -> None:
    model = Model(lambda x: functional.pad(x, (0, (x.shape[0] % 2 == 1) * 3)))
    program = onnxexp.export(model, (torch.rand(5),), dynamic_shapes=({0: "n"},), capture="trace")
    for size in (5, 1, 2, 3, 8):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))


class Pair(torch.nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


ATTENTION: dict[str, Callable[..., Any]] = {
    "by name": lambda x, y: functional.scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 1),
    "imported": lambda x, y: scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 1),
    "of two lengths": lambda x, y: functional.scaled_dot_product_attention(x, y, y, None, 0.0, x.shape[2] > 3),
    "with a scale of the size": lambda x, y: functional.scaled_dot_product_attention(
        x, y, y, is_causal=x.shape[2] > 3, scale=1 / x.shape[2]
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_attention_is_causal_at_some_sizes(name: str, capture: str) -> None:
    model = Pair(ATTENTION[name])
    axes = ({2: "t"}, {2: "s"})
    program = onnxexp.export(model, (torch.rand(2, 2, 5, 8), torch.rand(2, 2, 7, 8)), dynamic_shapes=axes, capture=capture)
    for rows, columns in ((5, 7), (1, 4), (2, 2), (3, 9), (9, 3)):
        x, y = torch.rand(2, 2, rows, 8), torch.rand(2, 2, columns, 8)
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5)


def scripted_attention(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_a_script_compiles_attention(capture: str) -> None:
    """The forward may compile it while it is captured."""
    compiling = Model(lambda x: torch.jit.script(scripted_attention)(x))
    model = scripted_attention if capture == "script" else compiling
    program = onnxexp.export(model, (torch.rand(1, 2, 5, 8),), dynamic_shapes=({2: "t"},), capture=capture)
    for length in (1, 7):
        x = torch.rand(1, 2, length, 8)
        torch.testing.assert_close(program(x), scripted_attention(x), rtol=1e-4, atol=1e-5)
