"""Samples that write their result into a tensor of the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.quantized.samples.operands import Row, written

A, Q = torch.ops.aten, torch.ops.quantized
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def compared(name: str, other: Callable[[Any], Any]) -> Row:
    return lambda t: getattr(torch, name)(t.x, other(t), out=torch.zeros(2, 4, 6, 6, dtype=torch.bool))


OUT: dict[str, list[Row]] = {
    **{name: [compared(name, lambda t: t.y), compared(name, lambda t: 0.5)] for name in COMPARISONS},
    "cat": [written(lambda t: torch.cat([t.y[:, :2], t.y[:, 2:]], 1, out=t.x))],
    "index_select": [written(lambda t: torch.index_select(t.y, 1, t.index, out=t.x[:, :2]))],
    "max": [written(lambda t: torch.max(t.y, out=t.x[0, 0, 0, 0]))],
    "min": [written(lambda t: torch.min(t.y, out=t.x[0, 0, 0, 0]))],
    "mean": [written(lambda t: torch.mean(t.y, [1], keepdim=True, out=t.x[:, :1]))],
    "std": [written(lambda t: torch.std(t.y, [1], keepdim=True, out=t.x[:, :1]))],
    "hardsigmoid": [written(lambda t: A.hardsigmoid(t.y, out=t.x))],
    "hardtanh": [written(lambda t: A.hardtanh(t.y, -0.5, 1, out=t.x))],
    "leaky_relu": [written(lambda t: A.leaky_relu(t.y, 0.2, out=t.x))],
    "adaptive_avg_pool3d": [lambda t: A.adaptive_avg_pool3d(t.v, [2, 2, 2], out=t.v[..., :2, :2, :2].clone())],
    "reflection_pad1d": [lambda t: A.reflection_pad1d(t.s, [1, 2], out=torch.cat([t.s, t.s[..., :3]], 2))],
    "reflection_pad2d": [lambda t: A.reflection_pad2d(t.x, [1, 2, 0, 0], out=torch.cat([t.x, t.x[..., :3]], 3))],
    **{
        f"quantized::{name}{relu}": [
            written(lambda t, of=of: of(t.y, t.y, out=t.x)), written(lambda t, of=of: of(t.y, 1.5, out=t.x)),
        ]
        for name in ("add", "mul")
        for relu in ("", "_relu")
        for of in [getattr(Q, f"{name}{relu}")]
    },
    **{
        f"quantized::{name}{relu}_out": [written(lambda t, of=of: of(t.y, t.y, t.x))]
        for name in ("add", "mul")
        for relu in ("", "_relu")
        for of in [getattr(Q, f"{name}{relu}_out")]
    },
    **{
        f"quantized::{name}_scalar{relu}_out": [
            written(lambda t, of=of: of(t.x, -1.5, t.y.clone())),
            written(lambda t, of=of: of(t.x, torch.tensor(1.5), t.y.clone())),
        ]
        for name in ("add", "mul")
        for relu in ("", "_relu")
        for of in [getattr(Q, f"{name}_scalar{relu}_out")]
    },
    **{
        f"quantized::cat{relu}_out": [written(lambda t, of=of: of([t.y[:, :1], t.y[:, 1:]], 1, t.x))]
        for relu in ("", "_relu")
        for of in [getattr(Q, f"cat{relu}_out")]
    },
}  # fmt: skip
"""Rows by the name of their function."""
