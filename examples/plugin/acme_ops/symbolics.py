"""Symbolics of the operators; their arguments are those of the torch schemas."""

from __future__ import annotations

from onnxexp import Builder, SymbolicTable, Tensor

# override: where another pack lowers the same operator, this one is asked first.
plugin = SymbolicTable("acme_ops", override=True)


@plugin("snake")
def snake(op: Builder, x: Tensor, alpha: float) -> Tensor:
    """snake(Tensor x, float alpha=1.0) -> Tensor"""
    wave = op.Sin(op.Mul(x, alpha))
    return op.Add(x, op.Div(op.Mul(wave, wave), alpha))


@plugin("aten::silu", since=24)
def silu(op: Builder, self: Tensor) -> Tensor:
    """silu(Tensor self) -> Tensor; one node from opset 24 on, before that the aten pack's two"""
    return op.Swish(self)
