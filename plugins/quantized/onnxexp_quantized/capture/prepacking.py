"""Packed weights that the model packs and unpacks itself."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight, QuantizedTensor

__all__ = ["table"]

table = FunctionTable()


def _packed(weight: QuantizedTensor, bias: torch.Tensor | None, settings: dict[str, Any]) -> PackedWeight:
    holder = torch.nn.Module()
    tensors = {"weight": weight.integers, "weight_scale": weight.scale, "weight_zero_point": weight.zero_point, "bias": bias}
    holder._buffers.update({name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)})
    return PackedWeight(holder, "", weight, settings)


@table("quantized::linear_prepack")
def _linear_prepack(W: QuantizedTensor, B: torch.Tensor | None = None) -> PackedWeight:
    """quantized::linear_prepack(Tensor W, Tensor? B=None) -> LinearPackedParamsBase W_prepack"""
    return _packed(W, B, {})


@table("quantized::conv_prepack", "quantized::conv1d_prepack", "quantized::conv2d_prepack", "quantized::conv3d_prepack")
def _conv_prepack(
    weight: QuantizedTensor, bias: torch.Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> PackedWeight:
    """quantized::conv2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) ->
    Conv2dPackedParamsBase"""
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "transpose": False}
    return _packed(weight, bias, settings)


def _conv_transpose_prepack(
    weight: QuantizedTensor, bias: torch.Tensor | None, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> PackedWeight:
    """quantized::conv_transpose2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[]
    dilation, int groups) -> Conv2dPackedParamsBase"""
    packed = _conv_prepack(weight, bias, stride, padding, dilation, groups)
    packed.settings |= {"transpose": True, "output_padding": output_padding}
    return packed


def _unpack(axes: int, packed_weights: PackedWeight) -> tuple[QuantizedTensor, torch.Tensor | None]:
    """quantized::conv2d_unpack(Conv2dPackedParamsBase packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)"""
    weight = packed_weights.weight
    squeezed = weight.ndim == 4 and axes == 1
    return weight.with_integers(weight.integers.squeeze(2)) if squeezed else weight, packed_weights.bias


def _setting(name: str, packed_weights: PackedWeight) -> Any:
    """quantized::conv2d_stride(Conv2dPackedParamsBase packed_weights) -> int[]"""
    default = [0] * len(packed_weights.settings["stride"])  # the output padding of a plain convolution
    value = packed_weights.settings.get(name, default)
    return int(value) if isinstance(value, bool) else value


table("quantized::linear_unpack")(functools.partial(_unpack, 0))
for _axes in (1, 2, 3):
    table(f"quantized::conv_transpose{_axes}d_prepack")(_conv_transpose_prepack)
    for _kind in (f"conv{_axes}d", f"conv_transpose{_axes}d"):
        table(f"quantized::{_kind}_unpack")(functools.partial(_unpack, _axes))
        for _name in ("stride", "padding", "dilation", "groups", "transpose", "output_padding") if _axes > 1 else ():
            table(f"quantized::{_kind}_{_name}")(functools.partial(_setting, _name))
