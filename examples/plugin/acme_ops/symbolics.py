"""Symbolics of the operators, with the arguments of the torch schemas."""

from __future__ import annotations

from onnxexp import Builder, SymbolicTable, Tensor

# The plugin lowers its own operators only: installing it changes no other model.
plugin = SymbolicTable("acme_ops")


@plugin("snake")
def snake(op: Builder, x: Tensor, alpha: float) -> Tensor:
    """snake(Tensor x, float alpha=1.0) -> Tensor"""
    wave = op.Sin(op.Mul(x, alpha))
    return op.Add(x, op.Div(op.Mul(wave, wave), alpha))


@plugin("gated")
def gated(op: Builder, x: Tensor, gate: Tensor) -> Tensor:
    """gated(Tensor x, Tensor gate) -> Tensor"""
    return op.Mul(op.Mul(x, gate), op.Mul(op.Add(op.Erf(op.Mul(gate, 0.5**0.5)), 1.0), 0.5))


@plugin("gated", since=20)
def gated_since_20(op: Builder, x: Tensor, gate: Tensor) -> Tensor:
    """gated(Tensor x, Tensor gate) -> Tensor; ONNX has Gelu from opset 20 on"""
    return op.Mul(x, op.Gelu(gate))
