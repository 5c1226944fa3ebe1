"""Computation in float64, for functions that lose digits in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.type_promotion import promoted_dtype


def polynomial(op: Builder, x: Tensor, coefficients: Sequence[Any]) -> Tensor:
    """Evaluate a polynomial by Horner's rule; the highest coefficient comes first."""
    result: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        result = op.Add(op.Mul(x, result), coefficient)
    return result


def polynomials(op: Builder, x: Tensor | Sequence[Tensor], rows: Sequence[Sequence[float]]) -> list[Tensor]:
    """Evaluate several polynomials at once, stacked along a new first axis.

    The polynomials share one argument, or have one each of the same shape.
    """
    first = x if isinstance(x, Tensor) else x[0]
    if first.rank is None:
        arguments = [x] * len(rows) if isinstance(x, Tensor) else x
        return [polynomial(op, argument, row) for argument, row in zip(arguments, rows, strict=True)]
    width = max(map(len, rows))
    rows_by_power = torch.tensor([[0.0] * (width - len(row)) + list(row) for row in rows], dtype=torch.float64)
    columns = map(op.constant, rows_by_power.T.reshape(width, len(rows), *[1] * first.rank).unbind())
    together = x if isinstance(x, Tensor) else op.Concat(*(op.Unsqueeze(each, axes=[0]) for each in x), axis=0)
    found = polynomial(op, together, list(columns))
    return [op.Gather(found, op.constant(index), axis=0) for index in range(len(rows))]


def sum_of_terms(
    op: Builder, x: Tensor, numbers: Sequence[float], term: Callable[[Tensor], Tensor], weights: Sequence[float] = ()
) -> Tensor:
    """Compute the weighted sum of ``term(x + number)`` over the numbers."""
    column = [-1, *[1] * rank_of(op, x)]
    places = op.Add(op.Unsqueeze(x, axes=[0]), op.constant(torch.tensor(numbers, dtype=torch.float64).reshape(column)))
    terms = term(places)
    if weights:
        terms = op.Mul(terms, op.constant(torch.tensor(weights, dtype=torch.float64).reshape(column)))
    return op.ReduceSum(terms, axes=[0], keepdims=0)


def where_float64(op: Builder, condition: Tensor, one: Any, other: Any) -> Tensor:
    """Emit ``Where`` of float64 tensors and numbers."""
    one, other = (op.cast(value, torch.float64) for value in (one, other))
    return op.Where(condition, one, other)


def equal_float64(op: Builder, x: Tensor, other: Any) -> Tensor:
    """Return where a float64 tensor equals another, or a number."""
    return equal(op, x, op.cast(other, torch.float64))


def in_float64(table: SymbolicTable, *names: str, schema: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register ``function(op, *float64 tensors)`` for tensors and numbers.

    The result has the promoted dtype; ints give the default float dtype.
    """

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def symbolic(op: Builder, *args: Any) -> Tensor:
            dtype = promoted_dtype(*args, floating=True)
            return op.cast(function(op, *(op.cast(arg, torch.float64) for arg in args)), dtype)

        symbolic.__doc__ = f"{schema}, computed in float64"
        symbolic.__name__ = function.__name__
        table(*names)(symbolic)
        return function

    return register
