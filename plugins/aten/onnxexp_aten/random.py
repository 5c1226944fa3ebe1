"""Random numbers: the distribution is torch's, the numbers are not."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten
from onnxexp_aten.creation import out_dtype, sizes_like
from onnxexp_aten.kernels import specified
from onnxexp_aten.noise import gaussian, uniform_of

__all__: list[str] = []


@aten("rand", "rand.generator")
def rand(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return uniform_of(op, size, out_dtype(op))


@aten("randn", "randn.generator")
def randn(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return gaussian(op, size, out_dtype(op))


@aten("rand_like")
def rand_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return uniform_of(op, sizes_like(op, self), out_dtype(op))


@aten("randn_like")
def randn_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return gaussian(op, sizes_like(op, self), out_dtype(op))


@aten("uniform")
def uniform(op: Builder, self: Tensor, from_: float, to: float, generator: Any) -> Tensor:
    """uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    return uniform_of(op, sizes_like(op, self), self.dtype, from_, to)


@aten("normal_functional")
def normal_functional(op: Builder, self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    """normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return gaussian(op, sizes_like(op, self), self.dtype, mean, std)


@aten("normal.float_float")
def normal_sized(op: Builder, mean: float, std: float, size: list[Any], *options: Any) -> Tensor:
    """normal.float_float(float mean, float std, SymInt[] size, *, ...) -> Tensor"""
    return gaussian(op, size, out_dtype(op), mean, std)


@aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(op: Builder, mean: Any, std: Any, generator: Any) -> Tensor:
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    dtype = out_dtype(op)
    spread = op.Mul(op.cast(std, dtype), op.cast(mean, dtype)) if isinstance(std, Tensor) and isinstance(mean, Tensor) else None
    like = spread if spread is not None else std if isinstance(std, Tensor) else mean
    noise = gaussian(op, sizes_like(op, like), dtype)
    return op.Add(op.Mul(noise, op.cast(std, dtype)), op.cast(mean, dtype))


@aten("exponential")
def exponential(op: Builder, self: Tensor, lambd: float, generator: Any) -> Tensor:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    return op.cast(op.Div(_logarithm(op, sizes_like(op, self)), -lambd), self.dtype)


def _logarithm(op: Builder, sizes: Any) -> Tensor:
    """Logarithms of float32 numbers that are uniform in (0, 1]."""
    return op.Log(op.Sub(1.0, uniform_of(op, sizes, torch.float32)))  # type: ignore[no-any-return]


# Whole numbers


def integers(op: Builder, sizes: Any, low: Any, high: Any, dtype: torch.dtype) -> Tensor:
    """Each of low … high - 1 equally often."""
    width = op.Sub(op.cast(high, torch.float64), op.cast(low, torch.float64))
    drawn = op.Floor(op.Mul(uniform_of(op, sizes, torch.float64), width))
    return op.cast(op.Add(drawn, op.cast(low, torch.float64)), dtype)


@aten("randint", "randint.generator")
def randint(op: Builder, high: Any, size: list[Any], *options: Any) -> Tensor:
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor"""
    return integers(op, size, 0, high, out_dtype(op))


@aten("randint.low", "randint.low_generator")
def randint_low(op: Builder, low: Any, high: Any, size: list[Any], *options: Any) -> Tensor:
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor"""
    return integers(op, size, low, high, out_dtype(op))


@aten("randint_like", "randint_like.Tensor", "randint_like.generator", "randint_like.Tensor_generator")
def randint_like(op: Builder, self: Tensor, high: Any, *options: Any) -> Tensor:
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return integers(op, sizes_like(op, self), 0, high, out_dtype(op))


@aten("randint_like.low_dtype", "randint_like.low_generator_dtype")
def randint_like_low(op: Builder, self: Tensor, low: Any, high: Any, *options: Any) -> Tensor:
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return integers(op, sizes_like(op, self), low, high, out_dtype(op))


@aten("random.from", "random.to", "random")
def random_(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor; no `to` is the dtype's largest"""
    bounds = [bound for bound in options[:-1] if bound is not None]
    digits = round(-math.log2(torch.finfo(self.dtype).eps)) + 1 if self.dtype.is_floating_point else 0
    largest = 2**digits if digits else min(int(torch.iinfo(self.dtype).max), 2**53 - 1) if self.dtype != torch.bool else 1
    low = bounds[0] if op.node.op == "aten::random.from" else 0
    high = bounds[-1] if len(bounds) > (op.node.op == "aten::random.from") else largest + 1
    return integers(op, sizes_like(op, self), low, high, self.dtype)


@aten("randperm", "randperm.generator")
def randperm(op: Builder, n: Any, *options: Any) -> Tensor:
    """randperm(SymInt n, *, ScalarType? dtype=4, ...) -> Tensor"""
    _, order = op.TopK(uniform_of(op, [n], torch.float32), op.Reshape(op.constant(n, torch.int64), [1]), axis=0)
    return op.cast(order, out_dtype(op))


# Draws


@aten("bernoulli")
def bernoulli(op: Builder, self: Tensor, generator: Any) -> Tensor:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    if specified(op, since=15):  # ONNX Runtime's kernel draws the other way round
        return op.Bernoulli(self)
    drawn = uniform_of(op, sizes_like(op, self), self.dtype)
    return op.cast(op.Less(drawn, self), self.dtype)


@aten("bernoulli.p", "bernoulli.Tensor")
def bernoulli_p(op: Builder, self: Tensor, p: Any, generator: Any) -> Tensor:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    drawn = uniform_of(op, sizes_like(op, self), torch.float32)
    return op.cast(op.Less(drawn, op.cast(p, torch.float32)), self.dtype)
