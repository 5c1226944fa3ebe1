"""Matrix factorizations by loops in the graph, for which ONNX has no operators: LU, Cholesky and QR, of batches of matrices.

They compute in float64: a graph without LAPACK's blocking keeps its digits so. Sources: Golub and Van Loan, "Matrix
Computations", 3.4 (LU with partial pivoting), 4.2 (Cholesky), 5.1 and 5.2 (Householder); signs and storage are LAPACK's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import rank_of
from onnxexp_aten.layout import swapped, unsqueezed, with_shape

__all__ = ["Factors", "Matrices", "cholesky", "householder", "lu", "q_of", "substitute"]


class Matrices:
    """``[*batch, rows, columns]`` as ``float64[batch, rows, columns]``, and the way back.

    Attributes:
        x: The matrices, of one batch axis.
        batch: The sizes in front of the matrices, static.
    """

    def __init__(self, op: Builder, x: Tensor) -> None:
        rank_of(op, x)
        assert x.shape is not None
        if any(isinstance(size, str) for size in x.shape):
            op.decline(
                f"the sizes of factorized matrices must be known at export, these are {x.shape}; cure: no dynamic axis there"
            )
        self._op = op
        self.dtype = x.dtype
        self.batch = [int(size) for size in x.shape[:-2]]
        self.rows, self.columns = (int(size) for size in x.shape[-2:])
        self.x = self.flat(x)

    def flat(self, x: Tensor) -> Tensor:
        """Any ``[*batch, m, n]`` as ``float64[batch, m, n]``; of batch sizes that broadcast, the full ones."""
        op, shape = self._op, [int(size) for size in x.shape or ()]
        batch = list(torch.broadcast_shapes(self.batch, shape[:-2]))
        wide = op.cast(x, torch.float64)
        if batch != shape[:-2]:
            wide = op.Expand(wide, [*batch, *shape[-2:]])
        flat = op.Reshape(wide, [torch.Size(batch).numel(), *shape[-2:]])
        return with_shape(flat, [torch.Size(batch).numel(), *shape[-2:]])

    def back(self, x: Tensor, *sizes: int) -> Tensor:
        """A result with these sizes for each matrix, in the dtype that came in (ints stay)."""
        x = self._op.cast(x, self.dtype) if x.dtype == torch.float64 else x
        return with_shape(self._op.Reshape(x, [*self.batch, *sizes]), [*self.batch, *sizes])


def _row(op: Builder, n: int) -> Tensor:
    return op.constant(torch.arange(n)[None, None, :])


def _column(op: Builder, n: int) -> Tensor:
    return op.constant(torch.arange(n)[None, :, None])


def _is(op: Builder, places: Tensor, k: Any) -> Tensor:
    return op.Equal(places, k)  # type: ignore[no-any-return]


def _above(op: Builder, places: Tensor, k: Tensor) -> Tensor:
    return op.Greater(places, k)  # type: ignore[no-any-return]


def _taken(op: Builder, x: Tensor, k: Tensor, axis: int) -> Tensor:
    """One row or column, with its axis kept."""
    return op.Gather(x, op.Reshape(k, [1]), axis=axis)  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Factors:
    """``P A = L U``: both factors in one matrix, the order of the rows, and the rows that were exchanged (counted from 0)."""

    factors: Tensor
    order: Tensor
    pivots: Tensor


def lu(op: Builder, x: Tensor, *, pivot: bool = True) -> Factors:
    """Of float64[batch, m, n]; `order` int64[batch, m, 1], `pivots` int64[batch, min(m, n)]."""
    assert x.shape is not None
    batch, m, n = (int(size) for size in x.shape)
    rows, columns = _column(op, m), _row(op, n)

    def body(k: Tensor, a: Tensor, order: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        column = _taken(op, a, k, 2)
        chosen = op.Mul(op.Reshape(k, [1, 1, 1]), op.constant(torch.ones(batch, 1, 1, dtype=torch.int64)))
        if pivot:
            size = op.Where(op.Less(rows, k), op.constant(-1.0, torch.float64), op.Abs(column))
            chosen = op.ArgMax(size, axis=1, keepdims=1)
        a, order = (_exchanged(op, part, rows, k, chosen) for part in (a, order))
        row = _taken(op, a, k, 1)
        column, divisor = _taken(op, a, k, 2), _taken(op, row, k, 2)
        nothing = op.Not(op.cast(divisor, torch.bool))
        factor = op.Div(column, op.Where(nothing, op.constant(1.0, torch.float64), divisor))
        below = _above(op, rows, k)
        reduced = op.Where(op.And(below, _above(op, columns, k)), op.Sub(a, op.Mul(factor, row)), a)
        reduced = op.Where(op.And(below, _is(op, columns, k)), factor, reduced)
        return None, [reduced, order], [op.Reshape(chosen, [batch])]

    start = op.constant(torch.arange(m)[None, :, None].expand(batch, m, 1).contiguous())
    factors, order, pivots = op.loop(min(m, n), None, body, [x, start])
    return Factors(factors, order, op.Transpose(pivots, perm=[1, 0]))


def _exchanged(op: Builder, x: Tensor, rows: Tensor, k: Tensor, other: Tensor) -> Tensor:
    """Row k and another one of each matrix exchanged; `other` int64[batch, 1, 1]."""
    first = _taken(op, x, k, 1)
    there = op.Equal(rows, other)
    zero = op.constant(0, x.dtype)
    second = op.ReduceSum(op.Where(there, x, zero), axes=[1], keepdims=1)
    return op.Where(_is(op, rows, k), second, op.Where(there, first, x))  # type: ignore[no-any-return]


def substitute(op: Builder, a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """X with ``A X = B`` for a triangular A, float64[batch, n, n], row after row; the other triangle is not read."""
    assert a.shape is not None and b.shape is not None
    n = int(a.shape[1])
    rows, columns = _column(op, n), _row(op, n)

    def body(number: Tensor, x: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        k = op.Sub(n - 1, number) if upper else number
        line = _taken(op, a, k, 1)
        known = op.Where(_above(op, columns, k) if upper else op.Less(columns, k), line, op.constant(0.0, torch.float64))
        rest = op.Sub(_taken(op, b, k, 1), op.MatMul(known, x))
        found = rest if unit else op.Div(rest, _taken(op, line, k, 2))
        return None, [op.Where(_is(op, rows, k), found, x)], []

    return op.loop(n, None, body, [op.constant(torch.zeros(*(int(size) for size in b.shape), dtype=torch.float64))])[0]


def cholesky(op: Builder, a: Tensor) -> Tensor:
    """The lower L with ``L L^T = A`` of float64[batch, n, n]; the upper triangle is not read. NaN where there is none."""
    assert a.shape is not None
    n = int(a.shape[1])
    rows, columns = _column(op, n), _row(op, n)

    def body(k: Tensor, done: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        line = _taken(op, done, k, 1)
        rest = op.Sub(_taken(op, a, k, 2), op.MatMul(done, swapped(op, line, 1, 2)))
        root = op.Sqrt(_taken(op, rest, k, 1))
        column = op.Where(op.Less(rows, k), op.constant(0.0, torch.float64), op.Div(rest, root))
        return None, [op.Where(_is(op, columns, k), column, done)], []

    return op.loop(n, None, body, [op.constant(torch.zeros(*(int(size) for size in a.shape), dtype=torch.float64))])[0]


def householder(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's geqrf of float64[batch, m, n]: R with the reflectors below it, and their factors, [batch, min(m, n)]."""
    assert x.shape is not None
    batch, m, n = (int(size) for size in x.shape)
    rows, columns = _column(op, m), _row(op, n)
    zero, one = op.constant(0.0, torch.float64), op.constant(1.0, torch.float64)

    def body(k: Tensor, a: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        column = _taken(op, a, k, 2)
        below = op.Where(_above(op, rows, k), column, zero)
        alpha = _taken(op, column, k, 1)
        tail = op.ReduceSum(op.Mul(below, below), axes=[1], keepdims=1)
        size = op.Sqrt(op.Add(op.Mul(alpha, alpha), tail))
        beta = op.Where(op.Less(alpha, 0.0), size, op.Neg(size))
        done = op.Not(op.cast(tail, torch.bool))  # nothing is left to reflect
        tau = op.Where(done, zero, op.Div(op.Sub(beta, alpha), op.Where(done, one, beta)))
        vector = op.Div(below, op.Where(done, one, op.Sub(alpha, beta)))
        vector = op.Where(_is(op, rows, k), one, vector)
        along = op.MatMul(swapped(op, vector, 1, 2), a)
        right = op.Where(_above(op, columns, k), op.Sub(a, op.Mul(tau, op.Mul(vector, along))), a)
        stored = op.Where(_is(op, rows, k), op.Where(done, alpha, beta), op.Where(_above(op, rows, k), vector, column))
        return None, [op.Where(_is(op, columns, k), stored, right)], [op.Reshape(tau, [batch])]

    packed, taus = op.loop(min(m, n), None, body, [x])
    return packed, op.Transpose(taus, perm=[1, 0])


def q_of(op: Builder, packed: Tensor, taus: Tensor, start: Tensor, *, transposed: bool = False) -> Tensor:
    """``Q @ start`` (or its transpose's), where Q is the product of the reflectors below the diagonal of `packed`."""
    assert packed.shape is not None and taus.shape is not None
    m, count = int(packed.shape[1]), int(taus.shape[1])
    rows = _column(op, m)

    def body(number: Tensor, x: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        k = number if transposed else op.Sub(count - 1, number)
        column = _taken(op, packed, k, 2)
        vector = op.Where(_above(op, rows, k), column, op.cast(_is(op, rows, k), torch.float64))
        tau = unsqueezed(op, _taken(op, taus, k, 1), [2])
        along = op.MatMul(swapped(op, vector, 1, 2), x)
        return None, [op.Sub(x, op.Mul(tau, op.Mul(vector, along)))], []

    return op.loop(count, None, body, [start])[0]
