"""Recurrent layers: LSTM and GRU on weights that are quantized in the file.

torch stacks the gates as i, f, g, o (LSTM) and r, z, n (GRU). ONNX stacks them as i, o, f, c and z, r, h. The integers are
rearranged at export, so that only DequantizeLinear is between the file's weights and the layer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_quantized.lowering.affine import Affine, dequantize
from onnxexp_quantized.lowering.dynamic_quantization import DYNAMIC

table = SymbolicTable("onnxexp_quantized")

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""Order of ONNX's gates, as positions in torch's weights."""


@table("lstm")
def lstm(
    op: Builder,
    x: Tensor,
    states: list[Tensor],
    weights: list[Tensor],
    scales: list[Tensor],
    zero_points: list[Tensor],
    biases: list[Tensor],
) -> tuple[Tensor, ...]:
    """lstm(Tensor x, Tensor[] states, Tensor[] weights, Tensor[] scales, Tensor[] zero_points, Tensor[] biases)
    -> (Tensor, Tensor, Tensor)"""
    symmetric = all(not each.const.any() for each in zero_points if each.const is not None)
    if scales and symmetric and op.context.plugin_data[DYNAMIC] == "ort":
        return _integer_lstm(op, x, states, weights, scales, zero_points, biases)
    return _float_layer(op, "LSTM", x, states, weights, scales, zero_points, biases)


@table("gru")
def gru(op: Builder, *args: Any) -> tuple[Tensor, ...]:
    """gru(Tensor x, Tensor[] states, Tensor[] weights, Tensor[] scales, Tensor[] zero_points, Tensor[] biases)
    -> (Tensor, Tensor)"""
    return _float_layer(op, "GRU", *args)


def _float_layer(
    op: Builder,
    kind: str,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    zero_points: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    parameters = [None, None] * len(weights) if not scales else list(zip(scales, zero_points, strict=True))
    arranged = [
        [_dequantized(op, kind, weights[index], parameters[index]) for index in range(first, len(weights), 2)] for first in (0, 1)
    ]
    w, r = (one[0] if len(one) == 1 else op.Concat(*one, axis=0) for one in arranged)
    attributes: dict[str, object] = {"hidden_size": _hidden_size(weights)}
    if len(weights) == 4:
        attributes["direction"] = "bidirectional"
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    y, *finals = op.call("", kind, x, w, r, _biases(op, kind, biases), None, *states, outputs=1 + len(states), **attributes)
    return _merged(op, y, len(weights) == 4), *finals


def _integer_lstm(
    op: Builder,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    zero_points: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """Emit ONNX Runtime's LSTM, which quantizes input and state at each step."""
    directions = range(0, len(weights), 2)
    w, r = (op.deferred(functools.partial(_stacked, "LSTM", True), *weights[first::2]) for first in (0, 1))
    parameters: list[Tensor] = []
    for first in (0, 1):
        for each in (scales, zero_points):
            stacked = [_by_gate(op, "LSTM", each[first + start]) for start in directions]
            parameters.append(op.Concat(*stacked, axis=0))
    attributes = {"hidden_size": _hidden_size(weights), "direction": "bidirectional" if len(directions) == 2 else "forward"}
    inputs = (x, w, r, _biases(op, "LSTM", biases), None, *states, None, *parameters)
    y, *finals = op.domain("com.microsoft").call("DynamicQuantizeLSTM", *inputs, outputs=3, **attributes)
    return _merged(op, y, len(directions) == 2), *finals


def _merged(op: Builder, y: Tensor, bidirectional: bool) -> Tensor:
    """Return the output (time, directions, batch, hidden) as torch returns it."""
    if not bidirectional:
        return op.Squeeze(y, axes=[1])
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


def _hidden_size(weights: Sequence[Tensor]) -> int:
    size = (weights[1].shape or ())[1]
    assert isinstance(size, int)
    return size


def _dequantized(op: Builder, kind: str, weight: Tensor, parameters: tuple[Tensor, Tensor] | None) -> Tensor:
    """Return one direction's weight in float32, (1, gates * hidden, ...)."""
    arranged = op.deferred(functools.partial(_stacked, kind, False), weight)
    if parameters is None:
        return op.cast(arranged, torch.float32)
    scale, zero_point = parameters
    if scale.rank == 0:
        return dequantize(op, arranged, Affine(scale, zero_point))
    scale, zero_point = (op.Squeeze(_by_gate(op, kind, each), axes=[0]) for each in parameters)
    return dequantize(op, arranged, Affine(scale, zero_point, axis=1))


def _by_gate(op: Builder, kind: str, parameter: Tensor) -> Tensor:
    """Arrange a direction's scales or zero points in ONNX's gate order, (1, ...)."""
    contents = parameter.const
    assert contents is not None
    if contents.dim():
        contents = _reordered(kind, contents)
    return op.constant(contents.reshape(1, -1) if contents.dim() else contents.reshape(1))


def _biases(op: Builder, kind: str, biases: Sequence[Tensor]) -> Tensor | None:
    return op.deferred(functools.partial(_stacked_biases, kind), *biases) if biases else None


def _stacked_biases(kind: str, *biases: torch.Tensor) -> torch.Tensor:
    return torch.cat([_reordered(kind, bias) for bias in biases]).reshape(len(biases) // 2, -1)


def _stacked(kind: str, transposed: bool, *weights: torch.Tensor) -> torch.Tensor:
    """Return the weights of all directions in ONNX's order of the gates."""
    stacked = torch.stack([_reordered(kind, weight) for weight in weights])
    return stacked.transpose(1, 2) if transposed else stacked


def _reordered(kind: str, weight: torch.Tensor) -> torch.Tensor:
    order = _GATES[kind]
    parts = weight.chunk(len(order))
    return torch.cat([parts[index] for index in order])
