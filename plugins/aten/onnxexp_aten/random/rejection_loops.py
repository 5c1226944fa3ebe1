"""Distributions without a closed formula, drawn in loops.

A loop ends when every element has its number.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.random.uniform_and_normal import drawn_dtype, gaussian, uniform_of
from onnxexp_aten.support.constant_of_shape import sizes_like

table = SymbolicTable("aten")


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
