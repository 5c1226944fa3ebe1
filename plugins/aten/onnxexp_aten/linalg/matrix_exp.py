"""Matrix exponential by scaling and squaring.

Source: Golub and Van Loan, "Matrix Computations", 9.3.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.factorization import Matrices
from onnxexp_aten.linalg.matrix_sizes import dims, eye, shaped
from onnxexp_aten.support.tensor_sizes import with_shape

table = SymbolicTable("aten")


_TERMS = 16
"""Terms of the series; exact to float64 for norms up to 1/2."""


@table("linalg_matrix_exp")
def matrix_exp(op: Builder, self: Tensor) -> Tensor:
    """linalg_matrix_exp(Tensor self) -> Tensor, by scaling and squaring"""
    matrices = Matrices(op, self)
    n = matrices.rows
    norm = op.ReduceMax(op.ReduceSum(op.Abs(matrices.x), axes=[2], keepdims=0), keepdims=0)
    halvings = op.Ceil(op.Div(op.Log(op.Max(norm, 0.5)), op.constant(torch.log(torch.tensor(2.0, dtype=torch.float64)))))
    halvings = op.Add(halvings, 1.0)
    x = op.Div(matrices.x, op.Pow(op.constant(2.0, torch.float64), halvings))
    result = _taylor(op, with_shape(x, dims(matrices.x)))

    def body(number: Tensor, power: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        return None, [op.MatMul(power, power)], []

    squared = op.loop(op.cast(halvings, torch.int64), None, body, [result])[0]
    return matrices.back(squared, n, n)


def _taylor(op: Builder, x: Tensor) -> Tensor:
    """Compute the Taylor series by the Paterson-Stockmeyer rule.

    The series is written as a polynomial in the fourth power with cubic coefficients.
    """
    batch, n, _ = dims(x)
    square = op.MatMul(x, x)
    powers = op.Concat(eye(op, batch, n, n), x, square, op.MatMul(square, x), axis=1)
    inverses = [1 / math.factorial(k) for k in range(_TERMS)]
    factors = op.constant(torch.tensor(inverses, dtype=torch.float64).reshape(-1, 4))
    cubic = op.MatMul(factors, shaped(op, powers, [batch, 4, n * n]))
    others = [shaped(op, each, [batch, n, n]) for each in op.Split(cubic, [1] * (_TERMS // 4), axis=1, outputs=_TERMS // 4)]
    result = others.pop()
    fourth = op.MatMul(square, square)
    for other in reversed(others):
        result = op.Add(op.MatMul(fourth, result), other)
    return with_shape(result, [batch, n, n])
