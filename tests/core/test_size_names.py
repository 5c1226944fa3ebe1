"""Symbolic sizes: their texts evaluate to the sizes, and their arithmetic is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, PythonMod

from onnxexp._capture.size_names import SizeNames
from onnxexp.graph import SymbolicSize

A, B, C = sympy.symbols("a b c", integer=True, positive=True)
VALUES = {"a": 360, "b": 3, "c": 5}
BATCH, SEQ = SymbolicSize("batch"), SymbolicSize("seq")


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
    found = SizeNames({A: "a", B: "b", C: "c"}).size(expr)
    value = expr.xreplace({symbol: sympy.Integer(VALUES[symbol.name]) for symbol in (A, B, C)})
    assert isinstance(found, SymbolicSize)
    assert eval(found.text, {}, dict(VALUES)) == found.at(VALUES) == value


@pytest.mark.parametrize(
    ("computed", "text"),
    [
        (SEQ * BATCH, "batch*seq"),
        (BATCH * SEQ, "batch*seq"),
        (2 * (BATCH + 1), "2*batch + 2"),
        ((2 * BATCH + 1) * SEQ, "seq*(2*batch + 1)"),
        ((BATCH + 1) // 2, "(batch + 1)//2"),
        (10 - BATCH, "10 - batch"),
        (BATCH - 1 + 1, "batch"),
        (BATCH - BATCH, 0),
        (SymbolicSize.smaller(SEQ, BATCH), "min(batch, seq)"),
        (SymbolicSize.larger(BATCH, 4), "max(4, batch)"),
        (SymbolicSize.larger(3, 4), 4),
        (SymbolicSize("past.0_dim_1") * 2, "2*past.0_dim_1"),
        (SymbolicSize("trunctoint(batch)") + 1, "trunctoint(batch) + 1"),
    ],
)
def test_arithmetic(computed: SymbolicSize | int, text: str | int) -> None:
    """The order of a computation does not change the text."""
    assert computed == text
    if isinstance(computed, SymbolicSize) and "trunctoint" not in computed.text:
        values = {"batch": 7, "seq": 5, "past.0_dim_1": 3}
        expected = eval(computed.text.replace("past.0_dim_1", "3"), {}, values)
        assert computed.at(values) == expected


def test_parts() -> None:
    assert (2 * BATCH + SEQ).parts(["seq", "batch", "other"]) == ["batch", "seq"]
    assert SymbolicSize("2*batch + 1").parts(["2*batch"]) == ["2*batch"]
    assert SymbolicSize("batches").parts(["batch"]) == []
    assert SymbolicSize("?1").parts(["batch"]) == []


def test_a_size_of_which_nothing_is_known() -> None:
    assert [size.is_unknown for size in (SymbolicSize("?1"), 2 * SymbolicSize("unknown_dim_3"), BATCH)] == [True, True, False]
    assert SymbolicSize("?1").at({"batch": 1}) is None


@pytest.mark.parametrize("name", ["my_unknown_dim", "n?", "is_unknown_dim_2"])
def test_a_users_name_is_known(name: str) -> None:
    assert not SymbolicSize(name).is_unknown


@pytest.mark.parametrize("text", ["9**9**9**9", "((9**64)**64)**64", "batch**9999999", "batch**(2**99)"])
def test_powers_of_a_file_are_bounded(text: str) -> None:
    assert isinstance(SymbolicSize(text) * 2 + 1, SymbolicSize)
