"""Random numbers with torch's distributions, but not its numbers.

Distributions without a closed formula are drawn in loops. A loop ends when every element has its number.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.math.arithmetic import is_number, scaled
from onnxexp_aten.random.uniform_and_normal import drawn_dtype, gaussian, uniform_of
from onnxexp_aten.statistics.nonzero_and_searchsorted import searchsorted
from onnxexp_aten.statistics.sorting import top
from onnxexp_aten.support.constant_of_shape import sizes_like
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs, targets_plain_onnx
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at

table = SymbolicTable("aten")


@table("rand", "rand.generator")
def rand(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return uniform_of(op, size, out_dtype(op))


@table("randn", "randn.generator")
def randn(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return gaussian(op, size, out_dtype(op))


@table("rand_like")
def rand_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return uniform_of(op, sizes_like(op, self), out_dtype(op))


@table("randn_like")
def randn_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return gaussian(op, sizes_like(op, self), out_dtype(op))


@table("uniform")
def uniform(op: Builder, self: Tensor, from_: float, to: float, generator: Any) -> Tensor:
    """uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    return uniform_of(op, sizes_like(op, self), self.dtype, from_, to)


@table("normal_functional")
def normal_functional(op: Builder, self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    """normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return gaussian(op, sizes_like(op, self), self.dtype, mean, std)


@table("normal.float_float")
def normal_sized(op: Builder, mean: float, std: float, size: list[Any], *options: Any) -> Tensor:
    """normal.float_float(float mean, float std, SymInt[] size, *, ...) -> Tensor"""
    return gaussian(op, size, out_dtype(op), mean, std)


@table("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(op: Builder, mean: Any, std: Any, generator: Any) -> Tensor:
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    dtype = out_dtype(op)
    spread = op.Mul(op.cast(std, dtype), op.cast(mean, dtype)) if isinstance(std, Tensor) and isinstance(mean, Tensor) else None
    like = spread if spread is not None else std if isinstance(std, Tensor) else mean
    noise = gaussian(op, sizes_like(op, like), dtype)
    return op.Add(op.Mul(noise, op.cast(std, dtype)), op.cast(mean, dtype))


@table("log_normal")
def log_normal(op: Builder, self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    """log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor"""
    return op.cast(compute(op, "Exp", gaussian(op, sizes_like(op, self), drawn_dtype(self), mean, std)), self.dtype)


@table("cauchy")
def cauchy(op: Builder, self: Tensor, median: float, sigma: float, generator: Any) -> Tensor:
    """cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor"""
    drawn = compute(op, "Tan", uniform_of(op, sizes_like(op, self), drawn_dtype(self), -math.pi / 2, math.pi / 2))
    drawn = scaled(op, drawn, sigma)
    return op.cast(drawn if median == 0 else compute(op, "Add", drawn, median), self.dtype)


@table("exponential")
def exponential(op: Builder, self: Tensor, lambd: float, generator: Any) -> Tensor:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    return op.cast(op.Div(_logarithm(op, self), -lambd), self.dtype)


@table("geometric")
def geometric(op: Builder, self: Tensor, p: float, generator: Any) -> Tensor:
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return op.cast(op.Add(op.Floor(op.Div(_logarithm(op, self), math.log1p(-p))), 1.0), self.dtype)


def _logarithm(op: Builder, x: Tensor) -> Tensor:
    """Draw logarithms of uniform float32 numbers in (0, 1], shaped as `x`."""
    return op.Log(uniform_of(op, sizes_like(op, x), torch.float32, 2.0**-25))


# Integers


def integers(op: Builder, sizes: Any, low: Any, high: Any, dtype: torch.dtype) -> Tensor:
    """Draw uniform integers from `low` to `high` - 1."""
    if op.is_static([low, high]) and 0 < op.static(high) - op.static(low) <= _EXACT:
        drawn = op.cast(uniform_of(op, sizes, torch.float64, 0.0, float(op.static(high) - op.static(low))), torch.int64)
        return op.cast(drawn if is_number(low, 0) else op.Add(drawn, op.cast(low, torch.int64)), dtype)
    width = op.Sub(op.cast(high, torch.float64), op.cast(low, torch.float64))
    drawn = op.Floor(op.Mul(uniform_of(op, sizes, torch.float64), width))
    return op.cast(op.Add(drawn, op.cast(low, torch.float64)), dtype)


_EXACT = 2**24
"""Largest integer that is exact as an attribute, which is float32."""


@table("randint", "randint.generator")
def randint(op: Builder, high: Any, size: list[Any], *options: Any) -> Tensor:
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor"""
    return integers(op, size, 0, high, out_dtype(op))


@table("randint.low", "randint.low_generator")
def randint_low(op: Builder, low: Any, high: Any, size: list[Any], *options: Any) -> Tensor:
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor"""
    return integers(op, size, low, high, out_dtype(op))


@table("randint_like", "randint_like.Tensor", "randint_like.generator", "randint_like.Tensor_generator")
def randint_like(op: Builder, self: Tensor, high: Any, *options: Any) -> Tensor:
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return integers(op, sizes_like(op, self), 0, high, out_dtype(op))


@table("randint_like.low_dtype", "randint_like.low_generator_dtype")
def randint_like_low(op: Builder, self: Tensor, low: Any, high: Any, *options: Any) -> Tensor:
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return integers(op, sizes_like(op, self), low, high, out_dtype(op))


@table("random.from", "random.to", "random")
def random_(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor; `to` defaults to the largest number"""
    bounds = [bound for bound in options[:-1] if bound is not None]
    digits = round(-math.log2(torch.finfo(self.dtype).eps)) + 1 if self.dtype.is_floating_point else 0
    largest = 2**digits if digits else min(int(torch.iinfo(self.dtype).max), 2**53 - 1) if self.dtype != torch.bool else 1
    low = bounds[0] if op.node.op == "aten::random.from" else 0
    high = bounds[-1] if len(bounds) > (op.node.op == "aten::random.from") else largest + 1
    return integers(op, sizes_like(op, self), low, high, self.dtype)


@table("randperm", "randperm.generator")
def randperm(op: Builder, n: Any, *options: Any) -> Tensor:
    """randperm(SymInt n, *, ScalarType? dtype=4, ...) -> Tensor"""
    _, order = op.TopK(uniform_of(op, [n], torch.float32), op.Reshape(op.constant(n, torch.int64), [1]), axis=0)
    return op.cast(order, out_dtype(op))


# Draws from given probabilities


@table("bernoulli")
def bernoulli(op: Builder, self: Tensor, generator: Any) -> Tensor:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    if targets_plain_onnx(op, since=15):  # ONNX Runtime's Bernoulli inverts the draw
        return op.Bernoulli(self)
    drawn = uniform_of(op, sizes_like(op, self), self.dtype)
    return op.cast(op.Less(drawn, self), self.dtype)


@table("bernoulli.p", "bernoulli.Tensor")
def bernoulli_p(op: Builder, self: Tensor, p: Any, generator: Any) -> Tensor:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    drawn = uniform_of(op, sizes_like(op, self), torch.float32)
    return op.cast(op.Less(drawn, op.cast(p, torch.float32)), self.dtype)


@table("multinomial")
def multinomial(op: Builder, self: Tensor, num_samples: Any, replacement: bool, generator: Any) -> Tensor:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    if replacement or num_samples == 1:
        rows = op.Unsqueeze(self, axes=[0]) if self.rank == 1 else self
        drawn = _drawn(op, rows, num_samples)
        return op.Squeeze(drawn, axes=[0]) if self.rank == 1 else drawn
    scores = op.cast(compute(op, "Log", self), torch.float32)
    noise = op.Neg(op.Log(uniform_of(op, sizes_like(op, self), torch.float32, 1e-7, 1.0)))
    return top(op, op.Sub(scores, op.Log(noise)), num_samples, rank_of(op, self) - 1, largest=True)[1]


def _drawn(op: Builder, rows: Tensor, count: Any) -> Tensor:
    """Draw positions in each row of weights, with replacement.

    Returns int64[rows, count].
    """
    if runs(op, "Multinomial", torch.float32):
        scores = compute(op, "Log", rows)
        return compare(op, "Multinomial", scores, sample_size=op.static(count, "num_samples"), dtype=torch.int64)
    sums = op.CumSum(op.cast(rows, torch.float64), 1)
    total = op.Slice(sums, starts=[-1], ends=[2**62], axes=[1])
    drawn = op.Mul(uniform_of(op, [size_at(op, rows, 0), count], torch.float64), total)
    return searchsorted(op, sums, drawn, False, True, None, None)


def _any(op: Builder, condition: Tensor) -> Tensor:
    """Return whether a condition is True anywhere, as a 0-d bool."""
    return op.cast(op.ReduceMax(op.cast(condition, torch.int32), keepdims=0), torch.bool)


@table("poisson")
def poisson(op: Builder, self: Tensor, generator: Any) -> Tensor:
    """poisson(Tensor self, Generator? generator=None) -> Tensor; counts waiting times of mean 1 up to `self`"""
    rate, sizes = op.cast(self, torch.float32), sizes_like(op, self)

    def body(number: Tensor, time: Tensor, count: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        waited = op.Log(op.Sub(1.0, uniform_of(op, sizes, torch.float32)))
        time = op.Sub(time, waited)
        over = op.Less(time, rate)
        return _any(op, over), [time, op.Add(count, op.cast(over, torch.float32))], []

    nothing = op.Mul(rate, 0.0)
    return op.cast(op.loop(None, op.constant(True), body, [nothing, nothing])[1], self.dtype)


@table("binomial")
def binomial(op: Builder, count: Tensor, prob: Tensor, generator: Any) -> Tensor:
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor; tosses as often as the largest count"""
    tosses, share = op.cast(count, torch.float32), op.cast(prob, torch.float32)
    nothing = op.Mul(op.Add(tosses, share), 0.0)
    sizes = sizes_like(op, nothing)

    def body(number: Tensor, hits: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        hit = op.Less(uniform_of(op, sizes, torch.float32), share)
        due = op.Less(op.cast(number, torch.float32), tosses)
        return None, [op.Add(hits, op.cast(op.And(hit, due), torch.float32))], []

    most = op.cast(op.ReduceMax(tosses, keepdims=0), torch.int64)
    return op.cast(op.loop(most, None, body, [nothing])[0], count.dtype)


@table("_standard_gamma")
def standard_gamma(op: Builder, self: Tensor, generator: Any) -> Tensor:
    """_standard_gamma(Tensor self, Generator? generator=None) -> Tensor

    Marsaglia and Tsang's rejection method serves shapes from 1 on. A smaller shape scales down a number of shape + 1.
    """
    dtype, sizes = drawn_dtype(self), sizes_like(op, self)
    shape = op.cast(self, dtype)
    small = op.Less(shape, 1.0)
    d = op.Sub(op.Add(shape, op.cast(small, dtype)), 1 / 3)
    c = op.Reciprocal(op.Sqrt(op.Mul(d, 9.0)))

    def body(number: Tensor, open_: Tensor, found: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        x = gaussian(op, sizes, dtype)
        root = op.Add(op.Mul(c, x), 1.0)
        possible = op.Greater(root, 0.0)
        v = op.Where(possible, op.Mul(root, op.Mul(root, root)), op.constant(1.0, dtype))
        bound = op.Add(op.Mul(op.Mul(x, x), 0.5), op.Mul(d, op.Add(op.Sub(1.0, v), op.Log(v))))
        drawn = op.Log(op.Sub(op.constant(1.0, dtype), uniform_of(op, sizes, dtype)))
        accepted = op.And(open_, op.And(possible, op.Less(drawn, bound)))
        left = op.And(open_, op.Not(accepted))
        return _any(op, left), [left, op.Where(accepted, op.Mul(d, v), found)], []

    nothing = op.Mul(d, 0.0)
    found = op.loop(None, op.constant(True), body, [op.Not(op.cast(nothing, torch.bool)), nothing])[1]
    scale = op.Pow(op.Sub(op.constant(1.0, dtype), uniform_of(op, sizes, dtype)), op.Reciprocal(shape))
    return op.cast(op.Where(small, op.Mul(found, scale), found), self.dtype)


@table("_sample_dirichlet")
def sample_dirichlet(op: Builder, self: Tensor, generator: Any) -> Tensor:
    """_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor; gamma numbers over their sum"""
    drawn = op.cast(standard_gamma(op, self, generator), drawn_dtype(self))
    return op.cast(op.Div(drawn, op.ReduceSum(drawn, axes=[-1], keepdims=1)), self.dtype)
