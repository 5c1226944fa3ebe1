"""Symbolics of complex numbers as pairs of real tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, ComplexTensor, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.linalg.matmul import product
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.functions_of_two import atan2, hypot
from onnxexp_aten.support.constant_of_shape import full_of, sizes_like
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import rank_of

REAL_DTYPES: Mapping[torch.dtype, torch.dtype] = MappingProxyType(
    {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
)
"""Complex dtypes and the dtypes of their parts."""

complex_table = SymbolicTable("aten")


def is_complex(x: Any) -> bool:
    """Return whether this is a complex tensor."""
    return isinstance(x, Tensor) and x.dtype.is_complex


def real_of(op: Builder) -> torch.dtype:
    """Return the dtype of the real and imaginary parts of the node's first result."""
    dtype = out_dtype(op)
    return REAL_DTYPES.get(dtype, dtype)


def paired(op: Builder, x: Any, dtype: torch.dtype | None = None) -> ComplexTensor:
    """Convert a tensor or number to a ComplexTensor.

    `dtype` is the dtype of the parts; the default is that of the argument.
    """
    if isinstance(x, Tensor) and x.const is not None and x.dtype.is_complex:
        parts = [op.constant(part.contiguous()) for part in (x.const.resolve_conj().real, x.const.resolve_conj().imag)]
        x = ComplexTensor(*parts)
    if isinstance(x, ComplexTensor):
        return x if dtype in (None, x.real.dtype) else ComplexTensor(op.cast(x.real, dtype), op.cast(x.imag, dtype))
    if dtype is None:
        raise op.error(f"the dtype of the parts of {x!r} is unknown")
    if not isinstance(x, Tensor):
        number = complex(x)
        return ComplexTensor(op.constant(number.real, dtype), op.constant(number.imag, dtype))
    return ComplexTensor(op.cast(x, dtype), full_of(op, sizes_like(op, x), 0, dtype))


def _pair_of(op: Builder, *args: Any) -> list[ComplexTensor]:
    """Convert operands to the dtype of the result."""
    return [paired(op, arg, real_of(op)) for arg in args]


# Conversions


@complex_table("complex")
def complex_(op: Builder, real: Tensor, imag: Tensor) -> ComplexTensor:
    """complex(Tensor real, Tensor imag) -> Tensor"""
    if real.shape != imag.shape:  # broadcast both to their common shape
        nothing = (full_of(op, sizes_like(op, part), 0, part.dtype) for part in (imag, real))
        real, imag = (compute(op, "Add", part, zeros) for part, zeros in zip((real, imag), nothing, strict=True))
    return ComplexTensor(real, imag)


@complex_table("polar")
def polar(op: Builder, size: Tensor, angle: Tensor) -> ComplexTensor:
    """polar(Tensor abs, Tensor angle) -> Tensor"""
    return ComplexTensor(*(compute(op, "Mul", size, compute(op, name, angle)) for name in ("Cos", "Sin")))


@complex_table("view_as_complex", "_view_as_complex")
def view_as_complex(op: Builder, self: Tensor) -> ComplexTensor:
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    return ComplexTensor.view_as_complex(self)


@complex_table("view_as_real")
def view_as_real(op: Builder, self: Tensor) -> Tensor:
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    return paired(op, self).view_as_real()


@complex_table("real")
def real_(op: Builder, self: Tensor) -> Tensor:
    """real(Tensor(a) self) -> Tensor(a)"""
    return paired(op, self).real


@complex_table("imag")
def imag_(op: Builder, self: Tensor) -> Tensor:
    """imag(Tensor(a) self) -> Tensor(a)"""
    return paired(op, self).imag


@complex_table("to.dtype", "_to_copy", "to.dtype_layout", "to.other", "to.device", "type_as", "chalf", "cfloat", "cdouble")
def to(op: Builder, self: Tensor, *_: Any) -> Tensor:
    """to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor(a)"""
    dtype = out_dtype(op)
    if dtype in REAL_DTYPES:
        return paired(op, self, REAL_DTYPES[dtype])
    whole = paired(op, self)
    if dtype == torch.bool:
        return op.Or(op.cast(whole.real, dtype), op.cast(whole.imag, dtype))
    return op.cast(whole.real, dtype)  # torch also drops the imaginary part


@complex_table("zeros_like", "ones_like", "full_like", "zeros", "ones", "full", "new_zeros", "new_ones", "new_full")
def constants(op: Builder, like: Any, *args: Any) -> ComplexTensor:
    """zeros_like(Tensor self, ...) -> Tensor and its kin"""
    name = op.node.op.removeprefix("aten::").partition(".")[0]
    sizes = sizes_like(op, like) if name.endswith("_like") else args[0] if name.startswith("new_") else like
    value = args[1] if name == "new_full" else args[0] if name.startswith("full") else int("ones" in name)
    return ComplexTensor(*(full_of(op, sizes, part, real_of(op)) for part in (complex(value).real, complex(value).imag)))


# Conjugates and absolute values


@complex_table("conj", "_conj", "conj_physical", "_conj_physical")
def conj(op: Builder, self: Tensor) -> ComplexTensor:
    """conj(Tensor(a) self) -> Tensor(a)"""
    whole = paired(op, self)
    return ComplexTensor(whole.real, compute(op, "Neg", whole.imag))


@complex_table("resolve_conj", "resolve_neg", "positive")
def same(op: Builder, self: Tensor) -> ComplexTensor:
    """resolve_conj(Tensor(a) self) -> Tensor(a)"""
    return paired(op, self)


@complex_table("mH", "adjoint")
def adjoint(op: Builder, self: Tensor) -> ComplexTensor:
    """adjoint(Tensor(a) self) -> Tensor(a)"""
    whole = conj(op, self)
    order = list(range(rank_of(op, self)))
    order[-2:] = reversed(order[-2:])
    return ComplexTensor(*(op.Transpose(part, perm=order) for part in (whole.real, whole.imag)))


@complex_table("abs", "absolute")
def abs_(op: Builder, self: Tensor) -> Tensor:
    """abs(Tensor self) -> Tensor"""
    whole = paired(op, self)
    return hypot(op, whole.real, whole.imag)


@complex_table("angle")
def angle(op: Builder, self: Tensor) -> Tensor:
    """angle(Tensor self) -> Tensor"""
    whole = paired(op, self)
    return atan2(op, whole.imag, whole.real)


@complex_table("sgn")
def sgn(op: Builder, self: Tensor) -> ComplexTensor:
    """sgn(Tensor self) -> Tensor"""
    whole, size = paired(op, self), abs_(op, self)
    divisor = compute(op, "Add", size, op.cast(op.Not(op.cast(size, torch.bool)), size.dtype))
    return ComplexTensor(*(compute(op, "Div", part, divisor) for part in (whole.real, whole.imag)))


# Arithmetic


@complex_table("add.Tensor", "add.Scalar")
def add(op: Builder, self: Any, other: Any, alpha: Any) -> ComplexTensor:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _sum(op, "Add", self, other, alpha)


@complex_table("sub.Tensor", "sub.Scalar")
def sub(op: Builder, self: Any, other: Any, alpha: Any) -> ComplexTensor:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _sum(op, "Sub", self, other, alpha)


@complex_table("rsub.Tensor", "rsub.Scalar")
def rsub(op: Builder, self: Any, other: Any, alpha: Any) -> ComplexTensor:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _sum(op, "Sub", other, self, alpha)


def _sum(op: Builder, name: str, self: Any, other: Any, alpha: Any) -> ComplexTensor:
    one, two = _pair_of(op, self, other if alpha == 1 else _product(op, *_pair_of(op, other, alpha)))
    return ComplexTensor(compute(op, name, one.real, two.real), compute(op, name, one.imag, two.imag))


@complex_table("mul.Tensor", "mul.Scalar")
def mul(op: Builder, self: Any, other: Any) -> ComplexTensor:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    for whole, factor in ((self, other), (other, self)):
        if not is_complex(factor) and not isinstance(factor, complex):
            whole, factor = paired(op, whole, real_of(op)), op.cast(factor, real_of(op))
            return ComplexTensor(*(compute(op, "Mul", part, factor) for part in (whole.real, whole.imag)))
    return _product(op, *_pair_of(op, self, other))


def _product(op: Builder, one: ComplexTensor, two: ComplexTensor, *, name: str = "Mul") -> ComplexTensor:
    def of(left: Tensor, right: Tensor) -> Tensor:
        return compute(op, "Mul", left, right) if name == "Mul" else product(op, left, right)

    real = compute(op, "Sub", of(one.real, two.real), of(one.imag, two.imag))
    return ComplexTensor(real, compute(op, "Add", of(one.real, two.imag), of(one.imag, two.real)))


@complex_table("matmul", "mm", "bmm", "mv", "dot")
def matmul(op: Builder, self: Tensor, other: Tensor) -> ComplexTensor:
    """matmul(Tensor self, Tensor other) -> Tensor"""
    return _product(op, *_pair_of(op, self, other), name="MatMul")


@complex_table("vdot")
def vdot(op: Builder, self: Tensor, other: Tensor) -> ComplexTensor:
    """vdot(Tensor self, Tensor other) -> Tensor"""
    return matmul(op, conj(op, self), other)


@complex_table("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(op: Builder, self: Any, other: Any) -> ComplexTensor:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    if not is_complex(other) and not isinstance(other, complex):
        whole, divisor = paired(op, self, real_of(op)), op.cast(other, real_of(op))
        return ComplexTensor(*(compute(op, "Div", part, divisor) for part in (whole.real, whole.imag)))
    return _product(op, paired(op, self, real_of(op)), reciprocal(op, paired(op, other, real_of(op))))


@complex_table("reciprocal")
def reciprocal(op: Builder, self: Tensor) -> ComplexTensor:
    """reciprocal(Tensor self) -> Tensor"""
    whole = paired(op, self)
    size = compute(op, "Add", *(compute(op, "Mul", part, part) for part in (whole.real, whole.imag)))
    return ComplexTensor(compute(op, "Div", whole.real, size), compute(op, "Neg", compute(op, "Div", whole.imag, size)))


@complex_table("exp")
def exp(op: Builder, self: Tensor) -> ComplexTensor:
    """exp(Tensor self) -> Tensor"""
    whole = paired(op, self)
    return polar(op, compute(op, "Exp", whole.real), whole.imag)


@complex_table("log")
def log(op: Builder, self: Tensor) -> ComplexTensor:
    """log(Tensor self) -> Tensor"""
    return ComplexTensor(compute(op, "Log", abs_(op, self)), angle(op, self))


@complex_table("sqrt")
def sqrt(op: Builder, self: Tensor) -> ComplexTensor:
    """sqrt(Tensor self) -> Tensor"""
    return polar(op, compute(op, "Sqrt", abs_(op, self)), compute(op, "Mul", angle(op, self), 0.5))


@complex_table("pow.Tensor_Scalar")
def pow_(op: Builder, self: Tensor, exponent: Any) -> ComplexTensor:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    if isinstance(exponent, complex):
        op.decline("a complex exponent is not supported")
    if exponent == 2:
        return _product(op, paired(op, self), paired(op, self))
    size = compute(op, "Pow", abs_(op, self), float(exponent))
    return polar(op, size, compute(op, "Mul", angle(op, self), float(exponent)))


@complex_table("where.self")
def where(op: Builder, condition: Tensor, self: Any, other: Any) -> ComplexTensor:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    one, two = _pair_of(op, self, other)
    return ComplexTensor(op.Where(condition, one.real, two.real), op.Where(condition, one.imag, two.imag))


@complex_table("eq.Tensor", "eq.Scalar")
def eq(op: Builder, self: Any, other: Any) -> Tensor:
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = next(REAL_DTYPES[x.dtype] for x in (self, other) if is_complex(x))
    one, two = (paired(op, x, dtype) for x in (self, other))
    return op.And(equal(op, one.real, two.real), equal(op, one.imag, two.imag))


@complex_table("ne.Tensor", "ne.Scalar")
def ne(op: Builder, self: Any, other: Any) -> Tensor:
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Not(eq(op, self, other))
