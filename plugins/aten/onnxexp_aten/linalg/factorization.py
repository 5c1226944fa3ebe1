"""LU, Cholesky and QR factorizations of batches, as loops in the graph.

ONNX has no operators for them. The loops compute in float64, because they lack the blocking that keeps LAPACK's digits.
Sources: Golub and Van Loan, "Matrix Computations", 3.4 (LU with partial pivoting), 4.2 (Cholesky), 5.1 and 5.2 (Householder).
Signs and storage are LAPACK's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.linalg.matrix_sizes import (
    broadcast,
    cut,
    diagonal_mask,
    dims,
    matrix_sizes,
    numbers,
    parts,
    shaped,
    size,
    triangle,
    zeros,
)
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.tensor_sizes import fixed, vector, with_shape


def eager_if_empty(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a symbolic to take empty matrices' results from eager torch."""

    @functools.wraps(function)
    def symbolic(op: Builder, *args: Any) -> Any:
        if not any(isinstance(arg, Tensor) and arg.shape is not None and 0 in arg.shape for arg in args):
            return function(op, *args)
        if any(isinstance(size, SymbolicSize) for arg in args if isinstance(arg, Tensor) for size in arg.shape or ()):
            op.decline("the matrices are empty, and other sizes are dynamic; to fix this, use no dynamic axis there")
        empty = [torch.zeros(fixed(arg.shape or ()), dtype=arg.dtype) if isinstance(arg, Tensor) else arg for arg in args]
        name, _, variant = op.node.op.removeprefix("aten::").partition(".")
        overload = getattr(getattr(torch.ops.aten, name), variant or "default")  # the operator of the node
        named = {given.name: arg for given, arg in zip(overload._schema.arguments, empty, strict=True) if given.kwarg_only}
        results = overload(*empty[: len(empty) - len(named)], **named)
        return op.constant(results) if isinstance(results, torch.Tensor) else tuple(map(op.constant, results))

    return symbolic


class Matrices:
    """Matrices ``[*batch, rows, columns]`` as ``float64[batch, rows, columns]``.

    Attributes:
        x: The matrices with a single batch axis.
        batch: The original batch sizes.
    """

    def __init__(self, op: Builder, x: Tensor) -> None:
        self._op = op
        self.dtype = x.dtype
        *self.batch, self.rows, self.columns = matrix_sizes(op, x)
        self.x = self.flat(x)

    @property
    def count(self) -> Dim:
        """Number of matrices."""
        return math.prod(self.batch)

    def flat(self, x: Tensor) -> Tensor:
        """Flatten any ``[*batch, m, n]`` to ``float64[batch, m, n]``.

        Batch sizes that broadcast are expanded.
        """
        op, shape = self._op, matrix_sizes(self._op, x)
        batch = broadcast(self.batch, shape[:-2])
        wide = op.cast(x, torch.float64)
        if batch != shape[:-2]:
            wide = op.Expand(wide, vector(op, [size(op, dim) for dim in (*batch, *shape[-2:])]))
        sizes = [math.prod(batch), *shape[-2:]]
        return with_shape(wide, sizes) if len(batch) == 1 else shaped(op, wide, sizes)

    def back(self, x: Tensor, *sizes: Dim) -> Tensor:
        """Restore a result's batch axes, and its dtype unless it is an integer.

        `sizes` are the sizes of the result for one matrix.
        """
        x = self._op.cast(x, self.dtype) if x.dtype == torch.float64 else x
        return shaped(self._op, x, (*self.batch, *sizes))

    def unit(self, rows: Dim, columns: Dim) -> Tensor:
        """Build ``eye(rows, columns)`` for each batch."""
        sizes = [*self.batch, rows, columns]
        one = self._op.cast(diagonal_mask(self._op, rows, columns), self.dtype)
        return with_shape(self._op.Expand(one, vector(self._op, [size(self._op, dim) for dim in sizes])), sizes)

    def info(self) -> Tensor:
        """Return LAPACK's status code for success.

        A graph cannot raise an error: its result is NaN or infinity where a factorization fails.
        """
        return success(self._op, self.batch)


def success(op: Builder, batch: Sequence[Dim]) -> Tensor:
    """Return LAPACK's status code for success, int32[*batch]."""
    return filled(op, [size(op, dim) for dim in batch], 0, torch.int32) if batch else op.constant(0, torch.int32)


def row_numbers(op: Builder, count: Dim) -> Tensor:
    """Return the numbers of the rows, int64[1, count, 1]."""
    return op.Unsqueeze(numbers(op, count), axes=[0, 2])


def scan_numbers(
    op: Builder, count: Dim, body: Callable[[Tensor, Tensor], tuple[Tensor, list[Tensor]]], x: Tensor, *, reverse: bool = False
) -> list[Tensor]:
    """Loop over the numbers below `count`.

    `body(k, x)` returns the next x and values to stack. Returns the last x, then the stacked values. The loop is a Scan: k is
    int64[1], as Gather takes it, there is no condition to compute, and the numbers can count down.
    """
    below = op.Unsqueeze(numbers(op, count), axes=[1])

    def step(x: Tensor, k: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        after, stacked = body(k, x)
        return [after], stacked

    return op.scan(step, [x], [below], reverse=reverse)


@dataclasses.dataclass(frozen=True)
class Factors:
    """Factors of ``P A = L U`` in one matrix, and the pivot rows.

    The pivots are int64[min(m, n), batch, 1, 1] and count from 0.
    """

    factors: Tensor
    pivots: Tensor


def lu(op: Builder, x: Tensor, beside: Tensor | None = None, *, pivot: bool = True) -> tuple[Factors, Tensor | None]:
    """Compute the LU factorization of float64[batch, m, n].

    `beside`, float64[batch, m, k], gets the same row exchanges.
    """
    batch, m, n = dims(x)
    rows, columns = row_numbers(op, m), numbers(op, n)
    if beside is not None:
        width = dims(beside)[2]
        columns = op.Concat(columns, op.cast(zeros(op, width, value=-1.0), torch.int64), axis=0)
    zero, one = op.constant(0.0, torch.float64), op.constant(1.0, torch.float64)

    def body(k: Tensor, a: Tensor) -> tuple[Tensor, list[Tensor]]:
        chosen = []
        if pivot:
            a, line, place = _pivoted(op, a, rows, k)
            chosen.append(place)
        else:
            line = op.Gather(a, k, axis=1)
        divisor, below = op.Gather(line, k, axis=2), op.Greater(rows, k)
        factor = op.Div(op.Gather(a, k, axis=2), op.Where(op.cast(divisor, torch.bool), divisor, one))
        factor = op.Where(below, factor, zero)
        reduced = op.Sub(a, op.Mul(factor, op.Where(op.Greater(columns, k), line, zero)))
        return op.Where(op.And(below, op.Equal(columns, k)), factor, reduced), chosen

    count = SymbolicSize.smaller(m, n)
    found, *pivots = scan_numbers(op, count, body, x if beside is None else op.Concat(x, beside, axis=2))
    order = pivots[0] if pivots else _in_order(op, count, batch)
    if beside is None:
        return Factors(with_shape(found, [batch, m, n]), order), None
    factors, moved = parts(op, found, 2, n, width)
    return Factors(with_shape(factors, [batch, m, n]), order), with_shape(moved, dims(beside))


def _in_order(op: Builder, count: Dim, batch: Dim) -> Tensor:
    """Return pivots without exchanges, int64[count, batch, 1, 1]."""
    column = op.Unsqueeze(numbers(op, count), axes=[1, 2, 3])
    return op.Expand(column, vector(op, [1, size(op, batch), 1, 1]))


def _pivoted(op: Builder, a: Tensor, rows: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exchange row k with the row of the pivot of column k.

    Returns the matrices, row k, and the pivot's position.
    """
    size = op.Where(op.Less(rows, k), op.constant(-1.0, torch.float64), op.Abs(op.Gather(a, k, axis=2)))
    chosen = op.ArgMax(size, axis=1, keepdims=1)
    return *exchange_rows(op, a, rows, k, chosen), with_shape(chosen, [dims(a)[0], 1, 1])


def exchange_rows(op: Builder, x: Tensor, rows: Tensor, k: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Exchange row k, int64[1], with row `other`, int64[batch, 1, 1].

    Returns the matrices and the new row k.
    """
    there = op.Equal(rows, other)
    line = op.ReduceSum(op.Where(there, x, op.constant(0, x.dtype)), axes=[1], keepdims=1)
    return op.Where(op.Equal(rows, k), line, op.Where(there, op.Gather(x, k, axis=1), x)), line


def solve_by_elimination(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Solve ``A X = B`` by Gauss-Jordan elimination.

    A is float64[batch, n, n], and B is float64[batch, n, k].
    """
    batch, n, width = dims(b)
    rows = row_numbers(op, n)

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        x, line, _ = _pivoted(op, x, rows, k)
        line = op.Div(line, op.Gather(line, k, axis=2))
        reduced = op.Sub(x, op.Mul(op.Gather(x, k, axis=2), line))
        return op.Where(op.Equal(rows, k), line, reduced), []

    both = scan_numbers(op, n, body, op.Concat(a, b, axis=2))[0]
    return cut(op, with_shape(both, [batch, n, n + width]), 2, n, n + width)


def substitute(op: Builder, a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """Solve ``A X = B`` for a triangular A, row by row.

    A is float64[batch, n, n]; its other triangle is not read.
    """
    n = dims(a)[1]
    rows, a = row_numbers(op, n), triangle(op, a, upper=upper)

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        line = op.Gather(a, k, axis=1)
        rest = op.Sub(op.Gather(b, k, axis=1), op.MatMul(line, x))  # rows of X that are still unknown are 0
        found = rest if unit else op.Div(rest, op.Gather(line, k, axis=2))
        return op.Where(op.Equal(rows, k), found, x), []

    return scan_numbers(op, n, body, zeros(op, *dims(b)), reverse=upper)[0]


def cholesky(op: Builder, a: Tensor) -> Tensor:
    """Compute the lower L with ``L L^T = A`` of float64[batch, n, n].

    The upper triangle is not read. L is NaN where A is not positive definite.
    """
    n = dims(a)[1]
    rows, columns = row_numbers(op, n), numbers(op, n)

    def body(k: Tensor, done: Tensor) -> tuple[Tensor, list[Tensor]]:
        line = op.Gather(done, k, axis=1)
        rest = op.Sub(op.Gather(a, k, axis=2), op.MatMul(done, op.Transpose(line, perm=[0, 2, 1])))
        root = op.Sqrt(op.Gather(rest, k, axis=1))
        column = op.Where(op.Less(rows, k), op.constant(0.0, torch.float64), op.Div(rest, root))
        return op.Where(op.Equal(columns, k), column, done), []

    return scan_numbers(op, n, body, zeros(op, *dims(a)))[0]


@dataclasses.dataclass(frozen=True)
class Reflected:
    """Householder factorization: ``Q^T A``, and Q as a product of reflectors.

    A reflector is ``I + vector row``. Below the diagonal, ``Q^T A`` is zero up to rounding. The vectors, float64[min(m, n),
    batch, m, 1], begin with 1, as LAPACK's do. The rows, float64[min(m, n), batch, 1, m], are the vectors times -tau.
    """

    x: Tensor
    vectors: Tensor
    rows: Tensor


def householder(op: Builder, x: Tensor) -> Reflected:
    """Factorize float64[batch, m, n] by Householder reflections; m, n > 0."""
    batch, m, n = dims(x)
    rows = row_numbers(op, m)
    zero, one = op.constant(0.0, torch.float64), op.constant(1.0, torch.float64)

    def body(k: Tensor, a: Tensor) -> tuple[Tensor, list[Tensor]]:
        column = op.Gather(a, k, axis=2)
        below, alpha = op.Where(op.Greater(rows, k), column, zero), op.Gather(column, k, axis=1)
        tail = op.ReduceSumSquare(below, axes=[1], keepdims=1)
        some = op.cast(tail, torch.bool)  # otherwise the column is reduced already
        size = op.Sqrt(op.Add(op.Mul(alpha, alpha), tail))
        beta = op.Where(op.Less(alpha, 0.0), size, op.Neg(size))
        gap = op.Sub(alpha, beta)
        factor = op.Where(some, op.Div(gap, beta), zero)
        vector = op.Where(op.Equal(rows, k), one, op.Div(below, op.Where(some, gap, one)))
        row = op.Mul(factor, op.Transpose(vector, perm=[0, 2, 1]))
        return _reflected(op, a, vector, row), [with_shape(vector, [batch, m, 1]), with_shape(row, [batch, 1, m])]

    return Reflected(*scan_numbers(op, SymbolicSize.smaller(m, n), body, x))


def _reflected(op: Builder, x: Tensor, vector: Tensor, row: Tensor) -> Tensor:
    return op.Add(x, op.Mul(vector, op.MatMul(row, x)))


def reflectors(op: Builder, packed: Tensor, taus: Tensor) -> Reflected:
    """Read reflectors from LAPACK's storage.

    The vectors lie below the diagonal of float64[batch, m, n]; the factors are float64[batch, k].
    """
    assert taus.shape is not None
    _, m, n = dims(packed)
    below = triangle(op, packed, upper=False, beside=1, other=diagonal_mask(op, m, n))
    kept = cut(op, below, 2, 0, taus.shape[1])
    vectors = op.Transpose(kept, perm=[2, 0, 1])
    rows = op.Mul(vectors, op.Unsqueeze(op.Transpose(op.Neg(taus), perm=[1, 0]), axes=[2]))
    return Reflected(packed, op.Unsqueeze(vectors, axes=[3]), op.Unsqueeze(rows, axes=[2]))


def apply_q(op: Builder, found: Reflected, start: Tensor, *, transposed: bool = False) -> Tensor:
    """Compute ``Q @ start``, or ``Q^T @ start``."""

    def body(x: Tensor, vector: Tensor, row: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return [_reflected(op, x, vector, row)], []

    return op.scan(body, [start], [found.vectors, found.rows], reverse=not transposed)[0]
