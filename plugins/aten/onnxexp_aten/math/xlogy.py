"""x log(y), x log(1 + y) and -x log(x), zero for x = 0."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.type_promotion import promote, to_float

table = SymbolicTable("aten")


@table(
    *("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"),
    *("special_xlogy", "special_xlogy.self_scalar", "special_xlogy.other_scalar"),
)
def xlogy(op: Builder, self: Any, other: Any) -> Tensor:
    """xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other, floating=True)
    return _product(op, x, y, compute(op, "Log", y))


@table("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def xlog1py(op: Builder, self: Any, other: Any) -> Tensor:
    """special_xlog1py(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other, floating=True)
    return _product(op, x, y, compute(op, "Log", compute(op, "Add", y, 1)))


def _product(op: Builder, x: Tensor, y: Tensor, logarithm: Tensor) -> Tensor:
    product = compute(op, "Mul", x, logarithm)
    defined = select(op, equal(op, x, op.constant(0.0, x.dtype)), op.constant(0.0, x.dtype), product)
    return select(op, compare(op, "IsNaN", y), y, defined)


@table("special_entr")
def entr(op: Builder, self: Tensor) -> Tensor:
    """special_entr(Tensor self) -> Tensor"""
    x = to_float(op, self)
    zero = op.constant(0.0, x.dtype)
    curve = compute(op, "Neg", compute(op, "Mul", x, compute(op, "Log", x)))
    at_zero = select(op, equal(op, x, zero), zero, curve)
    return select(op, compare(op, "Less", x, zero), op.constant(float("-inf"), x.dtype), at_zero)
