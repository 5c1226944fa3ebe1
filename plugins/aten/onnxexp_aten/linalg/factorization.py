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
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.tensor_sizes import with_shape

__all__ = [
    "Factors",
    "Matrices",
    "Reflected",
    "apply_q",
    "broadcast_sizes",
    "cholesky",
    "dims",
    "eager_if_empty",
    "exchange_rows",
    "eye",
    "householder",
    "lu",
    "reflectors",
    "scan_numbers",
    "sizes_known",
    "solve_by_elimination",
    "substitute",
    "triangle",
]


def eager_if_empty(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a symbolic to take empty matrices' results from eager torch."""

    @functools.wraps(function)
    def symbolic(op: Builder, *args: Any) -> Any:
        if not any(isinstance(arg, Tensor) and arg.shape is not None and 0 in arg.shape for arg in args):
            return function(op, *args)
        zeros = [
            torch.zeros([int(size) for size in arg.shape or ()], dtype=arg.dtype) if isinstance(arg, Tensor) else arg
            for arg in args
        ]
        name, _, variant = op.node.op.removeprefix("aten::").partition(".")
        overload = getattr(getattr(torch.ops.aten, name), variant or "default")  # the operator of the node
        named = {given.name: arg for given, arg in zip(overload._schema.arguments, zeros, strict=True) if given.kwarg_only}
        results = overload(*zeros[: len(zeros) - len(named)], **named)
        return op.constant(results) if isinstance(results, torch.Tensor) else tuple(map(op.constant, results))

    return symbolic


def eye(op: Builder, batch: int, rows: int, columns: int) -> Tensor:
    return op.constant(torch.eye(rows, columns, dtype=torch.float64).expand(batch, rows, columns).contiguous())


def sizes_known(op: Builder, x: Tensor) -> list[int]:
    """Sizes of matrices to factorize; declines the call where one is dynamic."""
    rank_of(op, x)
    sizes = [size for size in x.shape or () if isinstance(size, int)]
    if x.shape is None or len(sizes) < len(x.shape):
        op.decline(
            f"the sizes of matrices to factorize must be known at export, but they are {x.shape}; cure: no dynamic axis there"
        )
    return sizes


def broadcast_sizes(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Sizes that two shapes broadcast to."""
    return list(torch.broadcast_shapes(tuple(one), tuple(other)))  # type: ignore[no-untyped-call]  # torch's is not annotated


class Matrices:
    """Matrices ``[*batch, rows, columns]`` as ``float64[batch, rows, columns]``.

    Attributes:
        x: The matrices with a single batch axis.
        batch: The original batch sizes.
    """

    def __init__(self, op: Builder, x: Tensor) -> None:
        self._op = op
        self.dtype = x.dtype
        *self.batch, self.rows, self.columns = sizes_known(op, x)
        self.x = self.flat(x)

    @property
    def count(self) -> int:
        """Number of matrices."""
        return math.prod(self.batch)

    def flat(self, x: Tensor) -> Tensor:
        """Flatten any ``[*batch, m, n]`` to ``float64[batch, m, n]``.

        Batch sizes that broadcast are expanded.
        """
        op, shape = self._op, [int(size) for size in x.shape or ()]
        batch = broadcast_sizes(self.batch, shape[:-2])
        wide = op.cast(x, torch.float64)
        if batch != shape[:-2]:
            wide = op.Expand(wide, [*batch, *shape[-2:]])
        sizes = [math.prod(batch), *shape[-2:]]
        return with_shape(wide if len(batch) == 1 else op.Reshape(wide, sizes), sizes)

    def back(self, x: Tensor, *sizes: int) -> Tensor:
        """Restore the batch axes and the dtype of a result; integers stay.

        `sizes` are those of one matrix's result.
        """
        x = self._op.cast(x, self.dtype) if x.dtype == torch.float64 else x
        sizes = (*self.batch, *sizes)
        return x if x.known_shape == sizes else with_shape(self._op.Reshape(x, list(sizes)), sizes)

    def info(self) -> Tensor:
        """LAPACK's status code for success.

        A graph cannot raise; it returns NaN or infinity where a factorization fails.
        """
        return self._op.constant(torch.zeros(self.batch, dtype=torch.int32))


def dims(x: Tensor) -> tuple[int, int, int]:
    """Sizes of float64[batch, m, n]."""
    assert x.shape is not None
    batch, m, n = (int(size) for size in x.shape)
    return batch, m, n


def _column(op: Builder, n: int) -> Tensor:
    return op.constant(torch.arange(n)[None, :, None])


def scan_numbers(
    op: Builder, count: int, body: Callable[[Tensor, Tensor], tuple[Tensor, list[Tensor]]], x: Tensor, *, reverse: bool = False
) -> list[Tensor]:
    """Loop over the numbers below `count`.

    `body(k, x)` returns the next x and values to stack. Returns the last x, then the stacked values. The loop is a Scan: k is
    int64[1], as Gather takes it, there is no condition to compute, and the numbers can count down.
    """
    numbers = op.constant(torch.arange(count)[:, None])

    def step(x: Tensor, k: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        after, stacked = body(k, x)
        return [after], stacked

    return op.scan(step, [x], [numbers], reverse=reverse)


def triangle(op: Builder, x: Tensor, *, upper: bool, beside: int = 0, other: Any = 0.0) -> Tensor:
    """Triangle of float64[batch, m, n], with `other` in the rest.

    `beside` shifts the diagonal away from the triangle's corner.
    """
    ones = torch.ones(*dims(x)[1:], dtype=torch.bool)
    mask = ones.triu(beside) if upper else ones.tril(-beside)
    return op.Where(op.constant(mask), x, op.cast(other, torch.float64))


@dataclasses.dataclass(frozen=True)
class Factors:
    """Factors of ``P A = L U`` in one matrix, and the pivot rows.

    The pivots are int64[min(m, n), batch, 1, 1] and count from 0.
    """

    factors: Tensor
    pivots: Tensor


def lu(op: Builder, x: Tensor, beside: Tensor | None = None, *, pivot: bool = True) -> tuple[Factors, Tensor | None]:
    """LU factorization of float64[batch, m, n].

    `beside`, float64[batch, m, k], gets the same row exchanges.
    """
    batch, m, n = dims(x)
    width = 0 if beside is None else dims(beside)[2]
    rows, columns = _column(op, m), op.constant(torch.tensor([[[*range(n), *[-1] * width]]]))
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

    count = min(m, n)
    found, *pivots = scan_numbers(op, count, body, x if beside is None else op.Concat(x, beside, axis=2))
    order = pivots[0] if pivots else op.constant(torch.arange(count)[:, None, None, None].expand(count, batch, 1, 1).contiguous())
    if beside is None:
        return Factors(found, order), None
    factors, moved = op.Split(found, [n, width], axis=2, outputs=2)
    return Factors(factors, order), moved


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

    A is float64[batch, n, n], B float64[batch, n, k].
    """
    batch, n, width = dims(b)
    rows = _column(op, n)

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        x, line, _ = _pivoted(op, x, rows, k)
        line = op.Div(line, op.Gather(line, k, axis=2))
        reduced = op.Sub(x, op.Mul(op.Gather(x, k, axis=2), line))
        return op.Where(op.Equal(rows, k), line, reduced), []

    both = scan_numbers(op, n, body, op.Concat(a, b, axis=2))[0]
    return with_shape(op.Slice(both, [n], [n + width], [2]), [batch, n, width])


def substitute(op: Builder, a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """Solve ``A X = B`` for a triangular A, row by row.

    A is float64[batch, n, n]; its other triangle is not read.
    """
    n = dims(a)[1]
    rows, a = _column(op, n), triangle(op, a, upper=upper)

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        line = op.Gather(a, k, axis=1)
        rest = op.Sub(op.Gather(b, k, axis=1), op.MatMul(line, x))  # rows of X that are still unknown are 0
        found = rest if unit else op.Div(rest, op.Gather(line, k, axis=2))
        return op.Where(op.Equal(rows, k), found, x), []

    return scan_numbers(op, n, body, op.constant(torch.zeros(dims(b), dtype=torch.float64)), reverse=upper)[0]


def cholesky(op: Builder, a: Tensor) -> Tensor:
    """Lower L with ``L L^T = A`` of float64[batch, n, n].

    The upper triangle is not read. L is NaN where A is not positive definite.
    """
    n = dims(a)[1]
    rows, columns = _column(op, n), op.constant(torch.arange(n))

    def body(k: Tensor, done: Tensor) -> tuple[Tensor, list[Tensor]]:
        line = op.Gather(done, k, axis=1)
        rest = op.Sub(op.Gather(a, k, axis=2), op.MatMul(done, op.Transpose(line, perm=[0, 2, 1])))
        root = op.Sqrt(op.Gather(rest, k, axis=1))
        column = op.Where(op.Less(rows, k), op.constant(0.0, torch.float64), op.Div(rest, root))
        return op.Where(op.Equal(columns, k), column, done), []

    return scan_numbers(op, n, body, op.constant(torch.zeros(dims(a), dtype=torch.float64)))[0]


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
    rows = _column(op, m)
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

    return Reflected(*scan_numbers(op, min(m, n), body, x))


def _reflected(op: Builder, x: Tensor, vector: Tensor, row: Tensor) -> Tensor:
    return op.Add(x, op.Mul(vector, op.MatMul(row, x)))


def reflectors(op: Builder, packed: Tensor, taus: Tensor) -> Reflected:
    """Reflectors from LAPACK's storage.

    The vectors lie below the diagonal of float64[batch, m, n]; the factors are float64[batch, k].
    """
    assert taus.shape is not None
    _, m, n = dims(packed)
    count = int(taus.shape[1])
    below = triangle(op, packed, upper=False, beside=1, other=op.constant(torch.eye(m, n, dtype=torch.float64)))
    kept = below if count == n else op.Slice(below, [0], [count], [2])
    vectors = op.Transpose(kept, perm=[2, 0, 1])
    rows = op.Mul(vectors, op.Unsqueeze(op.Transpose(op.Neg(taus), perm=[1, 0]), axes=[2]))
    return Reflected(packed, op.Unsqueeze(vectors, axes=[3]), op.Unsqueeze(rows, axes=[2]))


def apply_q(op: Builder, found: Reflected, start: Tensor, *, transposed: bool = False) -> Tensor:
    """``Q @ start``, or ``Q^T @ start``."""

    def body(x: Tensor, vector: Tensor, row: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return [_reflected(op, x, vector, row)], []

    return op.scan(body, [start], [found.vectors, found.rows], reverse=not transposed)[0]
