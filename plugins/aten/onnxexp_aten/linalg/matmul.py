"""Products of matrices and vectors, and the exponential of a matrix.

Source of the exponential: Golub and Van Loan, "Matrix Computations", 9.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.linalg.factorization import Matrices
from onnxexp_aten.linalg.matrix_sizes import dims, eye, shaped
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of, vector, with_shape
from onnxexp_aten.support.type_promotion import dtype_of, promote
from onnxexp_aten.support.view_nodes import permuted, reshaped, sliced, squeezed, swapped, unsqueezed

table = SymbolicTable("aten")

_NARROW = {torch.bool, torch.uint8, torch.int8, torch.int16}
"""Dtypes that ONNX's MatMul lacks.

The low bits of a product in int32 equal those of the narrow product.
"""


def product(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Multiply by the rules of numpy's matmul, in the dtype of the operands."""
    if a.dtype in _NARROW:
        return op.cast(product(op, op.cast(a, torch.int32), op.cast(b, torch.int32)), a.dtype)
    if a.dtype.is_complex:
        op.decline("complex numbers are not supported")
    if b.rank == 1 and (a.rank or 0) > 1:  # ONNX Runtime joins a Transpose with this MatMul, and computes another product
        return squeezed(op, op.MatMul(a, unsqueezed(op, b, [1])), [(a.rank or 0) - 1])
    return op.MatMul(a, b)


def gemm(op: Builder, a: Tensor, b: Tensor, c: Tensor | None, alpha: Any = 1, beta: Any = 1) -> Tensor:
    """Emit a Gemm: alpha * a @ b + beta * c."""
    a, trans_a = _as_stored(op, a)
    b, trans_b = _as_stored(op, b)
    return op.Gemm(a, b, c, alpha=alpha, beta=beta, transA=trans_a, transB=trans_b)


def _as_stored(op: Builder, x: Tensor) -> tuple[Tensor, int]:
    """Return a parameter in its stored order, and whether that is transposed."""
    if x.const is None:
        return x, 0
    stored_so = x.const.dim() == 2 and x.const.T.is_contiguous() and not x.const.is_contiguous()
    return (op.Transpose(x, perm=[1, 0]), 1) if stored_so else (x, 0)


@table("linear")
def linear(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if weight.rank != 2 or input.rank is None:
        result = product(op, input, weight)
        return result if bias is None else compute(op, "Add", result, bias)
    if bias is not None and input.rank == 2 and input.dtype.is_floating_point:
        return with_shape(op.Gemm(input, weight, bias, transB=1), [*(input.shape or ())[:1], *(weight.shape or ())[:1]])
    result = product(op, input, swapped(op, weight, 0, 1))
    result = result if bias is None else compute(op, "Add", result, bias)
    return with_shape(result, [*(input.shape or ())[:-1], *(weight.shape or ())[:1]])


@table("matmul", "mm", "bmm", "mv", "dot", "linalg_matmul")
def matmul(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """matmul(Tensor self, Tensor other) -> Tensor"""
    return product(op, self, other)


@table("mm.dtype", "bmm.dtype")
def matmul_dtype(op: Builder, self: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Tensor:
    """mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor"""
    return product(op, op.cast(self, out_dtype), op.cast(mat2, out_dtype))


@table("vdot")
def vdot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """vdot(Tensor self, Tensor other) -> Tensor"""
    return product(op, self, other)


@table("linalg_vecdot")
def linalg_vecdot(op: Builder, x: Tensor, y: Tensor, dim: int) -> Tensor:
    """linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor"""
    if x.dtype.is_complex:
        op.decline("complex numbers are not supported")
    return reduced(op, "ReduceSum", compute(op, "Mul", x, y), [dim])


@table("linalg_cross")
def linalg_cross(op: Builder, self: Tensor, other: Tensor, dim: int) -> Tensor:
    """linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    if self.dtype.is_complex or other.dtype.is_complex:
        op.decline("complex numbers are not supported")
    axis = axis_of(op, self, dim)
    turned = [[op.Gather(x, places, axis=axis) for places in ([1, 2, 0], [2, 0, 1])] for x in promote(op, self, other)]
    (left_next, left_last), (right_next, right_last) = turned
    return compute(op, "Sub", compute(op, "Mul", left_next, right_last), compute(op, "Mul", left_last, right_next))


@table("cross")
def cross(op: Builder, self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """cross(Tensor self, Tensor other, int? dim=None) -> Tensor; the default dimension is the first of size 3"""
    if dim is not None:
        return linalg_cross(op, self, other, dim)
    if self.shape is None or 3 not in self.shape:
        op.decline("the sizes must be known at export")
    return linalg_cross(op, self, other, self.shape.index(3))


# Products with something added


def _scaled(op: Builder, x: Tensor, factor: Any) -> Tensor:
    if isinstance(factor, float) and not x.dtype.is_floating_point:
        factor = int(factor)  # torch truncates here
    return x if not isinstance(factor, Tensor) and factor == 1 else compute(op, "Mul", x, factor)


def _sum(op: Builder, self: Tensor, value: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Compute beta * self + alpha * value; beta = 0 ignores `self`, NaN included."""
    value = _scaled(op, value, alpha)
    if op.is_static(beta) and op.static(beta, "beta") == 0:
        return value
    return compute(op, "Add", value, _scaled(op, self, beta))


@table("addmm")
def addmm(op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    plain = op.is_static([beta, alpha]) and self.dtype.is_floating_point
    if not plain or op.static(beta, "beta") == 0 or (beta != 1 and not _has_columns(mat1)):
        return _sum(op, self, product(op, mat1, mat2), beta, alpha)
    return gemm(op, mat1, mat2, self, op.static(alpha, "alpha"), op.static(beta, "beta"))


def _has_columns(x: Tensor) -> bool:
    """Return whether a matrix certainly has columns.

    ONNX Runtime's Gemm ignores beta where the inner size is 0.
    """
    columns = x.shape[1] if x.shape is not None else None
    return isinstance(columns, int) and columns > 0


@table("addmm.dtype", "baddbmm.dtype")
def addmm_dtype(op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, beta: Any, alpha: Any) -> Tensor:
    """addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    added, one, other = (op.cast(x, out_dtype) for x in (self, mat1, mat2))
    return _sum(op, added, product(op, one, other), beta, alpha)


@table("addmv")
def addmv(op: Builder, self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    """addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _sum(op, self, product(op, mat, vec), beta, alpha)


@table("baddbmm")
def baddbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _sum(op, self, product(op, batch1, batch2), beta, alpha)


@table("addbmm")
def addbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _sum(op, self, compute(op, "ReduceSum", product(op, batch1, batch2), axes=[0], keepdims=0), beta, alpha)


@table("addr")
def addr(op: Builder, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _sum(op, self, compute(op, "Mul", unsqueezed(op, vec1, [1]), vec2), beta, alpha)


@table("outer", "ger")
def outer(op: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    """outer(Tensor self, Tensor vec2) -> Tensor"""
    left, right = promote(op, self, vec2)
    return compute(op, "Mul", unsqueezed(op, left, [1]), right)


@table("kron")
def kron(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """kron(Tensor self, Tensor other) -> Tensor"""
    left, right = promote(op, self, other)
    rank = max(rank_of(op, left), rank_of(op, right))
    left = unsqueezed(op, left, range(rank - rank_of(op, left)))
    right = unsqueezed(op, right, range(rank - rank_of(op, right)))
    spread = compute(op, "Mul", unsqueezed(op, left, range(1, 2 * rank, 2)), unsqueezed(op, right, range(0, 2 * rank, 2)))
    pairs = [(size_at(op, left, axis), size_at(op, right, axis)) for axis in range(rank)]
    given = [one * two if isinstance(one, int) and isinstance(two, int) else op.Mul(two, one) for one, two in pairs]
    return reshaped(op, spread, sizes_of(op) or (), given)


@table("linalg_vander")
def linalg_vander(op: Builder, x: Tensor, N: Any) -> Tensor:
    """linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor"""
    rows = x if x.rank else unsqueezed(op, x, [0])
    return _powers(op, rows, 0, size_at(op, rows, -1) if N is None else N, 1)


@table("vander")
def vander(op: Builder, x: Tensor, N: int | None, increasing: bool) -> Tensor:
    """vander(Tensor x, int? N=None, bool increasing=False) -> Tensor"""
    count = size_at(op, x, 0) if N is None else N
    last = op.Sub(count, 1) if isinstance(count, Tensor) else count - 1
    return _powers(op, x, 0, count, 1) if increasing else _powers(op, x, last, -1, -1)


def _powers(op: Builder, x: Tensor, start: Any, end: Any, step: int) -> Tensor:
    """Compute powers of a vector in columns, with exponents from `start` to `end`."""
    if not x.dtype.is_floating_point:
        if not (isinstance(start, int) and isinstance(end, int) and start != end):
            op.decline("the number of powers of integers is dynamic or 0")
        return _products(op, x, range(start, end, step))
    return compute(op, "Pow", unsqueezed(op, x, [rank_of(op, x)]), arange_of(op, start, end, step, x.dtype))


def _products(op: Builder, x: Tensor, exponents: Sequence[int]) -> Tensor:
    """Compute powers of integers in columns.

    ONNX Runtime computes Pow in float64, but products exactly.
    """
    column = unsqueezed(op, op.cast(x, torch.int64), [rank_of(op, x)])
    powers = [op.Add(op.Mul(column, 0), 1)]
    for _ in range(max(exponents)):
        powers.append(op.Mul(powers[-1], column))
    return op.Concat(*(powers[exponent] for exponent in exponents), axis=rank_of(op, x))


@table("tensordot")
def tensordot(op: Builder, self: Tensor, other: Tensor, dims_self: list[int], dims_other: list[int]) -> Tensor:
    """tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor

    A contracted axis of size 1 broadcasts: the other operand is summed over its axis.
    """
    if self.shape is not None and other.shape is not None:
        pairs = [(self.shape[one], other.shape[two]) for one, two in zip(dims_self, dims_other, strict=True)]
        if any((one == 1) != (two == 1) for one, two in pairs):
            op.decline("a contracted axis of size 1 broadcasts")
    left, right = rank_of(op, self), rank_of(op, other)
    over_left, over_right = [dim % left for dim in dims_self], [dim % right for dim in dims_other]
    free_left = [axis for axis in range(left) if axis not in over_left]
    free_right = [axis for axis in range(right) if axis not in over_right]
    if len(over_left) != 1 or len(free_right) > 1:
        op.decline("only one contracted axis and at most one free axis on the right are supported")
    return product(op, permuted(op, self, [*free_left, *over_left]), permuted(op, other, [*over_right, *free_right]))


@table("chain_matmul", "linalg_multi_dot")
def chain_matmul(op: Builder, matrices: list[Tensor]) -> Tensor:
    """chain_matmul(Tensor[] matrices) -> Tensor"""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = product(op, result, matrix)
    return result


@table("bilinear")
def bilinear(op: Builder, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"""
    rank = rank_of(op, input1)
    left = unsqueezed(op, input1, [rank - 1, rank])  # [*, 1, 1, in1]
    right = unsqueezed(op, input2, [rank - 1, rank + 1])  # [*, 1, in2, 1]
    result = op.Squeeze(product(op, product(op, left, weight), right), axes=[rank, rank + 1])
    return result if bias is None else compute(op, "Add", result, bias)


@table("_grouped_mm")
def grouped_mm(op: Builder, self: Tensor, mat2: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> Tensor:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"""
    if bias is not None:
        op.decline("a bias is not supported, nor does torch compute one")
    if offs is None:
        product = op.MatMul(self, mat2)
    elif rank_of(op, self) == 2 and rank_of(op, mat2) == 3:
        product = _by_rows(op, self, mat2, offs)
    else:
        op.decline("only groups of rows of a matrix are supported")
    return op.cast(product, dtype_of(out_dtype, self.dtype))


@table("transformers::grouped_mm_fallback")
def grouped_mm_fallback(op: Builder, input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _by_rows(op, input, weight, offs)


def _by_rows(op: Builder, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Multiply each group of rows by its own matrix, (S, K) by (groups, K, N).

    Rows after the last end are zero in the result.
    """
    groups = size_at(op, weights, 0)
    if not isinstance(groups, int):
        op.decline("the number of groups must be known at export")
    ends = op.cast(ends, torch.int64)
    bounds: list[Any] = [0, *(op.Slice(ends, [group], [group + 1], axes=[0]) for group in range(groups))]
    products = [
        op.MatMul(sliced(op, rows, 0, bounds[group], bounds[group + 1]), _matrix(op, weights, group)) for group in range(groups)
    ]
    rest = extreme(op, "Max", op.Sub(size_at(op, rows, 0), bounds[-1]), op.constant(0))
    zeros = op.ConstantOfShape(vector(op, [rest, size_at(op, weights, 2)]), value=torch.zeros(1, dtype=rows.dtype))
    return op.Concat(*products, zeros, axis=0)


def _matrix(op: Builder, weights: Tensor, group: int) -> Tensor:
    """Return one of the matrices; a parameter is sliced at export, not at run time."""
    if weights.const is not None:
        return op.wrap_constant(weights.const[group], f"{weights.name}.{group}" if weights.name else None)
    return op.Gather(weights, group, axis=0)


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
