"""Samples of layers that quantize their inputs at run time."""

from __future__ import annotations

from typing import Any

import torch
from torch.ao.nn.quantized import dynamic

from tests.quantized.samples.layers import packed, packed_transposed
from tests.quantized.samples.operands import Layer, Operands, Row, inputs

Q = torch.ops.quantized
_RANGE = float(inputs()["f"].max() - inputs()["f"].min())


def images(t: Operands, axes: int) -> Any:
    """Return a float tensor of 4 channels, in the shape of a convolution's input."""
    return {1: lambda: t.f[0].transpose(0, 1), 2: lambda: t.f, 3: lambda: t.f[:, :, None].repeat(1, 1, 3, 1, 1)}[axes]()


def convolution(axes: int, reduced: bool) -> Layer:
    """Build a dynamic convolution; torch quantizes its result by the input's scale."""
    steps = 127 if reduced else 255
    call = getattr(Q, f"conv{axes}d_dynamic")
    return Layer(packed(axes), lambda t, packed: call(images(t, axes), packed, reduced), quantum=_RANGE / steps)


def transposed(axes: int) -> Layer:
    call = getattr(Q, f"conv_transpose{axes}d_dynamic")
    return Layer(packed_transposed(axes), lambda t, packed: call(images(t, axes), packed, True), quantum=_RANGE / 127)


def linear(kind: str, *settings: bool) -> Layer:
    return Layer(lambda t: Q.linear_prepack(t.w0, t.b), lambda t, packed: getattr(Q, kind)(t.f[..., :4], packed, *settings))


def half(kind: str) -> Layer:
    return Layer(
        lambda t: Q.linear_prepack_fp16(t.w0.dequantize(), t.b), lambda t, packed: getattr(Q, kind)(t.f[..., :4], packed)
    )


def unpacked_half(t: Operands) -> Any:
    return Q.linear_unpack_fp16(Q.linear_prepack_fp16(t.w0.dequantize(), t.b))


RUN_TIME: dict[str, list[Row]] = {
    "quantize_per_tensor": [
        lambda t: torch.quantize_per_tensor(t.f, 0.02, 100, torch.quint8),
        lambda t: torch.quantize_per_tensor(t.f, 0.02, 0, torch.qint8),
        lambda t: torch.quantize_per_tensor(t.f, torch.tensor(0.02), torch.tensor(100), torch.quint8),
    ],
    "quantize_per_channel": [
        lambda t: torch.quantize_per_channel(
            t.f, torch.tensor([0.01, 0.02, 0.1, 0.04]), torch.tensor([3, 0, 9, 50]), 1, torch.quint8
        ),
    ],
    "quantize_per_tensor_dynamic": [
        lambda t: torch.quantize_per_tensor_dynamic(t.f, torch.quint8, False),
        lambda t: torch.quantize_per_tensor_dynamic(t.f, torch.qint8, True),
    ],
    "quantized::linear_dynamic": [linear("linear_dynamic"), linear("linear_dynamic", True)],
    "quantized::linear_relu_dynamic": [linear("linear_relu_dynamic"), linear("linear_relu_dynamic", True)],
    "quantized::linear_dynamic_fp16": [half("linear_dynamic_fp16")],
    "quantized::linear_relu_dynamic_fp16": [half("linear_relu_dynamic_fp16")],
    "quantized::linear_dynamic_fp16_unpacked_weight": [
        lambda t: Q.linear_dynamic_fp16_unpacked_weight(t.f[0, 0, :, :4], t.f[0, 0, :, :4], t.b)
    ],
    "quantized::linear_prepack_fp16": [unpacked_half],
    **{f"quantized::conv{axes}d_dynamic": [convolution(axes, False), convolution(axes, True)] for axes in (1, 2, 3)},
    **{f"quantized::conv_transpose{axes}d_dynamic": [transposed(axes)] for axes in (1, 2, 3)},
}  # fmt: skip
"""Functions that quantize float tensors."""


def recurrent(kind: Any, *, quantum: float = 0.0, **options: Any) -> Layer:
    """Build a module with packed weights, called without and with states."""

    def pack(t: Operands) -> Any:
        torch.manual_seed(0)
        return kind(6, 8, **options).eval()

    def call(t: Operands, module: Any) -> Any:
        is_layer = kind in (dynamic.LSTM, dynamic.GRU)
        x = t.f[0] if is_layer else t.f[0, 0]
        first = module(x)
        return first, module(x, first[1] if is_layer else first)

    return Layer(pack, call, quantum=quantum)


RECURRENT: dict[str, list[Row]] = {
    "quantized_lstm": [
        recurrent(dynamic.LSTM, quantum=0.1), recurrent(dynamic.LSTM, quantum=0.1, num_layers=2, bidirectional=True),
        recurrent(dynamic.LSTM, quantum=0.1, dtype=torch.float16),
    ],
    "quantized_gru": [recurrent(dynamic.GRU, quantum=0.1), recurrent(dynamic.GRU, quantum=0.1, batch_first=True, bias=False)],
    "quantized::quantized_lstm_cell_dynamic": [recurrent(dynamic.LSTMCell)],
    "quantized::quantized_gru_cell_dynamic": [recurrent(dynamic.GRUCell)],
    "quantized::quantized_rnn_tanh_cell_dynamic": [recurrent(dynamic.RNNCell)],
    "quantized::quantized_rnn_relu_cell_dynamic": [recurrent(dynamic.RNNCell, nonlinearity="relu")],
}  # fmt: skip
"""Recurrent layers and cells.

torch's kernels of layers quantize the state at each step, and the export's do not, so that these differ by a few steps."""
