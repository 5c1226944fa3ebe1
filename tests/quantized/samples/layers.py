"""Samples of static convolutions and linear layers, and of their packed weights."""

from __future__ import annotations

from typing import Any

import torch

from tests.quantized.samples.operands import Layer, Operands, Row

Q = torch.ops.quantized
TO = (0.1, 70)


def image(t: Operands, axes: int) -> Any:
    return {1: lambda: t.s, 2: lambda: t.x, 3: lambda: t.v}[axes]()


def packed(axes: int, *, groups: int = 1, bias: bool = True, **settings: int) -> Row:
    """Pack the weight of a convolution."""
    used = {"stride": 2, "padding": 1, "dilation": 1} | settings
    lists = [[number] * axes for number in used.values()]
    return lambda t: getattr(Q, f"conv{axes}d_prepack")(
        getattr(t, f"w{axes}")[:, : 4 // groups], t.b if bias else None, *lists, groups
    )


def packed_transposed(axes: int) -> Row:
    lists = [[number] * axes for number in (2, 1, 1, 1)]

    def pack(t: Operands) -> Any:
        weight = t.transposed[(..., *[0] * (3 - axes))]
        return getattr(Q, f"conv_transpose{axes}d_prepack")(weight, t.b[:3], *lists, 1)

    return pack


def convolved(axes: int, kind: str = "", *older: Any, **settings: int) -> Layer:
    return Layer(
        packed(axes, **settings), lambda t, packed: getattr(Q, f"conv{axes}d{kind}")(image(t, axes), packed, *older, *TO)
    )


def transposed(axes: int) -> Layer:
    return Layer(packed_transposed(axes), lambda t, packed: getattr(Q, f"conv_transpose{axes}d")(image(t, axes), packed, *TO))


def with_sum(kind: str) -> Layer:
    def pack(t: Operands) -> Any:
        return Q.conv2d_prepack(t.square, t.b[:4], [1, 1], [1, 1], [1, 1], 1)

    return Layer(pack, lambda t, packed: getattr(Q, kind)(t.x, t.y, packed, *TO), "onednn")


def linear(kind: str, *settings: float, engine: str = "fbgemm") -> Layer:
    return Layer(
        lambda t: Q.linear_prepack(t.w0, t.b), lambda t, packed: getattr(Q, kind)(t.x[:, :, :4, 0], packed, *settings), engine
    )


def linear_in_float(kind: str) -> Layer:
    """Build a layer with a float result.

    The export stores its bias in steps of the product of the two scales.
    """
    call = getattr(Q, f"linear_with_input_q_dq_qweight_dq{kind}_output_fp32")
    return Layer(
        lambda t: Q.linear_prepack(t.w0, t.b),
        lambda t, packed: call(t.f[0, 0, :, :4], 0.02, 120, packed),
        quantum=0.02 * 0.03 / 2,
    )


CONVOLUTION: dict[str, list[Row]] = {
    **{f"quantized::conv{axes}d": [convolved(axes), convolved(axes, groups=2, dilation=2, padding=2)] for axes in (1, 2)},
    "quantized::conv3d": [convolved(3), convolved(3, "", [2, 2, 2], [1, 1, 1], [1, 1, 1], 1)],
    **{f"quantized::conv{axes}d_relu": [convolved(axes, "_relu")] for axes in (1, 2, 3)},
    **{f"quantized::conv_transpose{axes}d": [transposed(axes)] for axes in (1, 2, 3)},
    "quantized::conv2d_add": [with_sum("conv2d_add")],
    "quantized::conv2d_add_relu": [with_sum("conv2d_add_relu")],
    "quantized::linear": [linear("linear", *TO), linear("linear", *TO, engine="qnnpack")],
    "quantized::linear_relu": [linear("linear_relu", *TO)],
    "quantized::linear_tanh": [linear("linear_tanh", 0.01, 128, engine="onednn")],
    "quantized::linear_leaky_relu": [linear("linear_leaky_relu", *TO, 0.2, engine="onednn")],
}
CONVOLUTION["quantized::conv2d"] += [convolved(2, "", [2, 2], [1, 1], [1, 1], 1), convolved(2, bias=False)]
for _axes in (2, 3):
    _older = [[number] * _axes for number in (2, 1, 1)]
    CONVOLUTION[f"quantized::conv{_axes}d_relu"].append(convolved(_axes, "_relu", *_older, 1))
"""Layers, whose results are torch's integers or a neighbour."""

LINEAR_IN_FLOAT: dict[str, list[Row]] = {
    f"quantized::linear_with_input_q_dq_qweight_dq{relu}_output_fp32": [linear_in_float(relu)] for relu in ("", "_relu")
}
"""Layers with float results."""


def unpacked(pack: Row, unpack: str) -> Row:
    """Unpack a weight and a bias after packing."""

    def row(t: Operands) -> Any:
        weight, bias = getattr(Q, unpack)(pack(t))
        return weight.int_repr(), bias

    return row


def setting(kind: str, axes: int, name: str) -> Layer:
    pack = packed_transposed(axes) if "transpose" in kind else packed(axes)
    return Layer(pack, lambda t, packed: getattr(Q, f"{kind}{axes}d_{name}")(packed))


PACKING: dict[str, list[Row]] = {
    **{
        f"quantized::{kind}{axes}d_{name}": [setting(kind, axes, name)]
        for kind in ("conv", "conv_transpose")
        for axes in (2, 3)
        for name in ("stride", "padding", "dilation", "groups", "transpose", "output_padding")
    },
    **{f"quantized::conv{axes}d_prepack": [unpacked(packed(axes), f"conv{axes}d_unpack")] for axes in (1, 2, 3)},
    **{
        f"quantized::conv_transpose{axes}d_prepack": [unpacked(packed_transposed(axes), f"conv_transpose{axes}d_unpack")]
        for axes in (1, 2, 3)
    },
    "quantized::conv_prepack": [unpacked(lambda t: Q.conv_prepack(t.w2, t.b, [2, 2], [1, 1], [1, 1], 1), "conv_unpack")],
    "quantized::conv2d_unpack_sizes": [Layer(packed(2), lambda t, packed: Q.conv2d_unpack_sizes(packed))],
    "quantized::linear_prepack": [unpacked(lambda t: Q.linear_prepack(t.w0, t.b), "linear_unpack")],
}
"""Functions that pack weights, and read packed ones."""
