"""The texts of symbolic sizes evaluate to the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, PythonMod

from onnxexp._capture.size_names import SizeNames

A, B, C = sympy.symbols("a b c", integer=True, positive=True)
VALUES = {"a": 360, "b": 3, "c": 5}


@pytest.mark.parametrize(
    "size",
    [
        lambda: FloorDiv(A, B * C),  # a//(b*c), and not (a//b)*c
        lambda: FloorDiv(A, (B + 1) * (4 * B + 4)),
        lambda: FloorDiv(A * B, C),
        lambda: FloorDiv(A, B) * C,
        lambda: FloorDiv(A, FloorDiv(C, B)),
        lambda: FloorDiv(FloorDiv(A, B), C),
        lambda: FloorDiv(A + 1, B),
        lambda: PythonMod(A, B * C),
        lambda: 2 * FloorDiv(A, 7) + 1,
    ],
)
def test_a_text_has_the_value_of_its_size(size: Callable[[], Any]) -> None:
    """Python computes the text, sympy the expression."""
    expr = size()
    text = SizeNames({A: "a", B: "b", C: "c"}).text(expr)
    assert eval(str(text), {}, dict(VALUES)) == expr.xreplace(
        {symbol: sympy.Integer(VALUES[symbol.name]) for symbol in (A, B, C)}
    )
