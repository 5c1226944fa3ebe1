"""Facts that the example fixes in a trace: sizes of results, lengths of lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

import onnxexp
from onnxexp_torchscript.types.abstract_tensor import harmless
from tests.conformance.sizes import misdeclared

Model = Callable[[torch.Tensor], Any]


def traced(model: Model) -> tuple[onnxexp.ONNXProgram, list[str]]:
    """Trace a model with 8 on its dynamic axis; return the program and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(model, (torch.randn(8, 4),), capture="trace", dynamic_shapes=({0: "n"},), check_sizes=False)
    return program, [line.strip() for warning in caught for line in str(warning.message).splitlines()[1:]]


def assert_right(program: onnxexp.ONNXProgram, model: Model, sizes: Sequence[int]) -> None:
    for size in sizes:
        x = torch.randn(size, 4)
        expected = model(x)
        results = expected if isinstance(expected, (tuple, list)) else [expected]
        given = program(x)
        torch.testing.assert_close(list(given) if isinstance(given, (tuple, list)) else [given], list(results))
        assert misdeclared(program.model_proto, {"n": size}, results) == ""


@pytest.mark.parametrize(
    "model",
    [
        lambda x: (x[:5], x.long()[:5], x.t()[:, :5]),
        lambda x: (x[-6:], x.double()[-6:]),
        lambda x: (x[2:7], x.double()[2:7], x.tril()[2:7]),
        lambda x: (x[:5].sum(0) / x[:5].shape[0], x.double()[:5].sum(0) / x.double()[:5].shape[0]),
    ],
)
def test_a_condition_is_decided_for_each_call(model: Model) -> None:
    """Each call decides a condition, also one that another call has decided before."""
    program, warned = traced(model)
    assert warned == []
    assert_right(program, model, (1, 3, 4, 5, 7, 8, 13))


@pytest.mark.parametrize(
    ("model", "op", "count", "sizes"),
    [
        (lambda x: x.split(4), "split.Tensor", 2, (5, 7, 8)),
        (lambda x: torch.cat(x.split(3)[::-1]), "split.Tensor", 3, (7, 8, 9)),
        (lambda x: x.t().split(4, -1), "split.Tensor", 2, (5, 8)),
        (lambda x: torch.unsafe_split(x, 4), "unsafe_split.Tensor", 2, (5, 7, 8)),
        (lambda x: x.chunk(3), "chunk", 3, (3, 5, 7, 8, 20)),
        (lambda x: torch.stack([part.sum() for part in x.chunk(3)]), "chunk", 3, (5, 8, 13)),
        (lambda x: torch.stack([part.sum() for part in x.split(3)[0].chunk(2)]), "chunk", 2, (2, 5, 8)),
    ],
)
def test_pieces_are_as_many_as_in_the_example(model: Model, op: str, count: int, sizes: Sequence[int]) -> None:
    program, warned = traced(model)
    assert len(warned) == 1
    assert warned[0].startswith(f'aten::{op} gives as many pieces as for the example, {count}, at File "{__file__}", line ')
    assert_right(program, model, sizes)


def test_an_index_of_pieces_needs_no_length() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.split(20)[0], torch.split(x, 3)[0], x.split(1)[-1], x.unbind()[-1] + x.unbind()[0], x.chunk(3)[-1]

    program, warned = traced(model)
    assert warned == []
    assert_right(program, model, (4, 8, 13, 33))


def test_an_index_of_pieces_of_a_computed_length() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x.shape[0] // 2 + 1
        repeated = torch.kron(x, x)
        return x.split(half)[0], x.split(half)[-1], torch.split(repeated, repeated.shape[0] // 2 + 1)[-1], x.chunk(half)[-1]

    program, warned = traced(model)
    assert warned == []
    assert_right(program, model, (1, 2, 3, 4, 5, 8, 13))


@pytest.mark.parametrize("model", [lambda x: x.split(2, 1), lambda x: x.split([3, x.shape[0] - 3]), lambda x: x.chunk(2)])
def test_pieces_that_no_size_decides_are_not_told(model: Model) -> None:
    program, warned = traced(model)
    assert warned == []
    assert_right(program, model, (4, 8, 13))


def scripted_and_right(model: torch.nn.Module, sizes: Sequence[int]) -> None:
    program = onnxexp.export(model, (torch.randn(6, 4),), capture="script", dynamic_shapes=({0: "n"},))
    assert_right(program, model, sizes)


class LastPiece(torch.nn.Module):
    """A piece of unknown length broadcasts; torch takes its length for the other's."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        last = x.split(1, 0)[-1]
        return torch.where(last > 0, x, x + 1), last * x


class Halves(torch.nn.Module):
    """`chunk` returns one piece at size 1."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        head = x.split(2, 0)[0]
        return torch.stack([part.sum() for part in head.chunk(2, 0)]), x[:3].chunk(2, 0)[0].chunk(2, 0)[0]


class Strides(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.t().clone(memory_format=torch.contiguous_format)
        return y.as_strided(y.shape, x.t().contiguous().stride()) * y.stride(0)


class Broadcast(torch.nn.Module):
    """A broadcast whose result has the larger size, which no tensor of the call has."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        last = x.split(1, 0)[-1]
        one = torch.broadcast_tensors(last, x)
        other = torch.broadcast_tensors(x, last * 2, x[:, :1])
        return one[0], other[1] + other[2]


@pytest.mark.parametrize("model", [LastPiece(), Halves(), Strides(), Broadcast()], ids=lambda model: type(model).__name__)
def test_lengths_that_a_script_knows_at_run_time_only(model: torch.nn.Module) -> None:
    scripted_and_right(model, (1, 2, 3, 6, 7))


def test_a_kernel_that_fixes_a_size_does_not_fix_a_number() -> None:
    """max_pool1d fixes the size of a fake tensor, but not its number of elements."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool1d(x.t(), 2).t() + x.numel()

    program, warned = traced(model)
    assert warned == []
    assert_right(program, model, (2, 5, 8, 13))


def test_a_size_does_not_widen_a_scalar_tensor() -> None:
    """A trace records the size as an int64 tensor, where eager has a Python number."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x[0, 0].int()
        return first % x.shape[0], first + x.shape[1], first.half() / x.shape[0], x[first % x.shape[0]]

    program, warned = traced(model)
    assert warned == []
    for size in (8, 5):
        x = torch.randn(size, 4)
        for given, expected in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(given, expected)


def test_what_is_harmless() -> None:
    n, m = sympy.symbols("n m", integer=True, positive=True)
    assert all(map(harmless, [sympy.Eq(n, m), sympy.Eq(n, 8), sympy.Ne(n, m), sympy.Ge(n, 2), sympy.Ne(2 * n, 1), sympy.true]))
    assert not any(map(harmless, [sympy.Eq((n + 3) // 4, 2), sympy.Eq(n * m, 15), sympy.Ne(n % 2, 0), sympy.Gt(n, 5)]))


M, N = sympy.symbols("m n", integer=True, positive=True)
DEEP = M * (FloorDiv(2 * M - 1, M + FloorDiv(1, M + 1)) - 1)
"""A size of a program that `chunk` and `split` made, which sympy's simplify takes minutes for."""


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        (sympy.Ge(M, 2), True),
        (sympy.Ge(M, 3), False),
        (sympy.Eq(M, N), True),
        (sympy.Eq(2 * M, N), False),
        (sympy.Ne(M * N, 1), True),
        (sympy.Lt(sympy.Max(1, M), sympy.Max(1, M) * sympy.Max(1, N)), True),
        (sympy.Eq(sympy.Max(1, M), M), True),
        (sympy.Not(sympy.And(-M >= 0, -M <= 2 * M)), True),
        (sympy.Or(sympy.Eq(M * N, 0), sympy.Eq(sympy.Max(1, N), N)), True),
        (sympy.Eq(FloorDiv(M + 3, 4), 2), False),
        (sympy.And(DEEP >= 0, DEEP <= M), False),
        (sympy.Eq(M > 3, N > 3), False),
    ],
)
def test_guards_that_hold_for_all_sizes_of_two_and_more(guard: sympy.Basic, expected: bool) -> None:
    assert harmless(guard) == expected
