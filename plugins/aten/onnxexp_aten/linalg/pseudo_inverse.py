"""Pseudo-inverses, ranks and least squares by singular values."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.linalg.factorization import Matrices, eager_if_empty
from onnxexp_aten.linalg.matrix_sizes import dims, parts, size
from onnxexp_aten.linalg.svd_and_eigh import is_wide, rotated_with_turns, shifted_positive, singular_values, symmetric_eigen
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.view_nodes import swapped, unsqueezed

table = SymbolicTable("aten")


@table("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(op: Builder, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    matrices = Matrices(op, self)
    return matrices.back(_pseudo_inverse(op, matrices, atol, rtol, hermitian=hermitian)[0], matrices.columns, matrices.rows)


@table("linalg_pinv.atol_rtol_float")
def linalg_pinv_float(op: Builder, self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    return linalg_pinv(op, self, _number(op, atol), _number(op, rtol), hermitian)


@table("pinverse")
def pinverse(op: Builder, self: Tensor, rcond: float) -> Tensor:
    """pinverse(Tensor self, float rcond=1e-15) -> Tensor"""
    return linalg_pinv_float(op, self, None, rcond, False)


def _number(op: Builder, value: float | None) -> Tensor | None:
    return None if value is None else op.constant(value, torch.float64)


def _pseudo_inverse(
    op: Builder, matrices: Matrices, atol: Tensor | None, rtol: Tensor | None, *, hermitian: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pseudo-inverse, the mask of nonzero values, and all values' sizes.

    The pseudo-inverse is float64[batch, n, m].
    """
    if hermitian:
        values, vectors = symmetric_eigen(op, matrices, upper=False)
        left, right, divisor, sizes = vectors, vectors, values, op.Abs(values)
    else:
        wide = is_wide(matrices.rows, matrices.columns)
        x = swapped(op, matrices.x, 1, 2) if wide else matrices.x
        columns, turned = parts(op, rotated_with_turns(op, x), 1, *dims(x)[1:])
        left, right = (columns, turned) if wide else (turned, columns)
        divisor = op.ReduceSumSquare(columns, axes=[1], keepdims=1)
        sizes = _largest(op, op.Sqrt(divisor), matrices)
    kept = op.Greater(sizes, _tolerance(op, matrices, sizes, atol, rtol))
    inverses = op.Where(kept, op.Div(1.0, divisor), op.constant(0.0, torch.float64))
    return op.MatMul(op.Mul(left, inverses), swapped(op, right, 1, 2)), kept, sizes


def _largest(op: Builder, sizes: Tensor, matrices: Matrices) -> Tensor:
    """Set values beyond the possible rank to zero, for matrices that may be wide."""
    count = SymbolicSize.smaller(matrices.rows, matrices.columns)
    if count == matrices.columns or isinstance(count, int):
        return sizes
    least = op.ReduceMin(op.TopK(sizes, [size(op, count)], axis=2, outputs=2)[0], axes=[2], keepdims=1)
    return op.Where(op.Less(sizes, least), op.constant(0.0, torch.float64), sizes)


@table("linalg_matrix_rank.atol_rtol_tensor")
@eager_if_empty
def linalg_matrix_rank(op: Builder, input: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)
    -> Tensor"""
    matrices = Matrices(op, input)
    if hermitian:
        shifted, shift = shifted_positive(op, matrices, upper=False)
        sizes = op.Abs(op.Sub(shift, singular_values(op, shifted)))
    else:
        sizes = singular_values(op, matrices.x)
    return _rank(op, matrices, op.Greater(sizes, _tolerance(op, matrices, sizes, atol, rtol)))


@table("linalg_matrix_rank.atol_rtol_float")
@eager_if_empty
def linalg_matrix_rank_float(op: Builder, self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    return linalg_matrix_rank(op, self, _number(op, atol), _number(op, rtol), hermitian)


def _rank(op: Builder, matrices: Matrices, kept: Tensor) -> Tensor:
    return matrices.back(op.ReduceSum(op.cast(kept, torch.int64), axes=[1, 2], keepdims=0))


@table("linalg_lstsq")
@eager_if_empty
def linalg_lstsq(op: Builder, self: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Tensor, ...]:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)
    -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)

    Computes the solution with the smallest norm.
    """
    matrices = Matrices(op, self)
    m, n = matrices.rows, matrices.columns
    right = unsqueezed(op, b, [rank_of(op, b)]) if rank_of(op, b) < rank_of(op, self) else b
    assert right.shape is not None
    width = right.shape[-1]
    relative = None if rcond is None or rcond < 0 else rcond
    inverse, kept, sizes = _pseudo_inverse(op, matrices, None, _number(op, relative))
    wanted = matrices.flat(right)
    solution = op.MatMul(inverse, wanted)
    nothing, driver = op.constant(torch.empty(0, dtype=self.dtype)), driver or "gelsy"
    residuals, singular = nothing, nothing
    if driver != "gelsy" and not is_wide(m, n) and m != n:
        missed = op.Sub(op.MatMul(matrices.x, solution), wanted)
        residuals = _if_tall(op, matrices, matrices.back(op.ReduceSumSquare(missed, axes=[1], keepdims=0), width))
    if driver in ("gelsd", "gelss"):
        count = SymbolicSize.smaller(m, n)
        singular = matrices.back(op.TopK(sizes, [size(op, count)], axis=2, outputs=2)[0], count)
    vector = right is not b
    return (
        matrices.back(solution, *([n] if vector else [n, width])),
        residuals,
        op.constant(torch.empty(0, dtype=torch.int64)) if driver == "gels" else _rank(op, matrices, kept),
        singular,
    )


def _if_tall(op: Builder, matrices: Matrices, residuals: Tensor) -> Tensor:
    """Return the residuals of tall matrices, and float[0] for others."""
    if isinstance(matrices.rows, int) and isinstance(matrices.columns, int):
        return residuals
    if matrices.batch:
        op.decline(
            "the sizes of the matrices decide whether there are residuals; "
            "to fix this, use no dynamic axis there, or driver='gelsy'"
        )
    tall = op.Less(op.constant(size(op, matrices.columns)), op.constant(size(op, matrices.rows)))
    return op.Slice(residuals, [0], op.Mul(op.Shape(residuals), op.cast(tall, torch.int64)), [0])


def _tolerance(op: Builder, matrices: Matrices, sizes: Tensor, atol: Tensor | None, rtol: Tensor | None) -> Tensor:
    """Compute the threshold for zero: `atol` or, if larger, `rtol` times the maximum.

    The result is float64 and broadcasts to [batch, 1, n].
    """
    largest = op.ReduceMax(sizes, axes=[2], keepdims=1)

    def each(tolerance: Tensor) -> Tensor:
        wide = op.cast(tolerance, torch.float64)
        return op.Reshape(wide, [-1, 1, 1]) if wide.rank else wide

    side = op.cast(size(op, SymbolicSize.larger(matrices.rows, matrices.columns)), torch.float64)
    default = op.Mul(side, torch.finfo(matrices.dtype).eps)
    relative: Any = each(rtol) if rtol is not None else default
    if atol is None:
        return op.Mul(largest, relative)
    absolute = each(atol)
    if rtol is None:  # torch's default applies only without an absolute tolerance
        relative = op.Where(op.Greater(absolute, 0.0), op.constant(0.0, torch.float64), default)
    return extreme(op, "Max", absolute, op.Mul(largest, relative))
