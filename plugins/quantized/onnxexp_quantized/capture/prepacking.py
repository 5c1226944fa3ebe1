"""Packed weights that the model packs and unpacks itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedCell, PackedWeight, QuantizedTensor

table = FunctionTable()


_LARGEST = torch.finfo(torch.float16).max


def _packed(weight: QuantizedTensor, bias: torch.Tensor | None, settings: dict[str, Any]) -> PackedWeight:
    holder = torch.nn.Module()
    tensors = {"weight": weight.integers, "weight_scale": weight.scale, "weight_zero_point": weight.zero_point, "bias": bias}
    holder._buffers.update({name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)})
    return PackedWeight(holder, "", weight, settings)


@table("quantized::linear_prepack")
def _linear_prepack(W: QuantizedTensor, B: torch.Tensor | None = None) -> PackedWeight:
    """quantized::linear_prepack(Tensor W, Tensor? B=None) -> LinearPackedParamsBase W_prepack"""
    return _packed(W, B, {})


def half_prepacking() -> dict[str, Callable[..., Any]]:
    """Return replacements, by name, of torch's operators for float16 weights.

    Those operators of `torch.ops.quantized` take ordinary tensors.
    """
    return {"linear_prepack_fp16": _prepack_half, "linear_dynamic_fp16_unpacked_weight": _linear_with_half}


def _prepack_half(W: torch.Tensor, B: torch.Tensor | None = None) -> PackedWeight:
    """quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> LinearPackedParamsBase W_prepack"""
    holder = torch.nn.Module()
    tensors = {"weight": W.clamp(-_LARGEST, _LARGEST).half(), "bias": B}
    holder._buffers.update({name: tensor for name, tensor in tensors.items() if tensor is not None})
    return PackedWeight(holder, "", None, {})


def _linear_with_half(X: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """quantized::linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor Y"""
    return torch.nn.functional.linear(X, weight.clamp(-_LARGEST, _LARGEST).half().float(), bias)


@table("quantized::linear_unpack_fp16")
def _unpack_half(W_prepack: PackedWeight) -> tuple[torch.Tensor, torch.Tensor | None]:
    """quantized::linear_unpack_fp16(LinearPackedParamsBase W_prepack) -> (Tensor W_origin, Tensor? B_origin)"""
    return W_prepack.half.float(), W_prepack.bias


@table("quantized::embedding_bag_prepack")
def _table_prepack(weight: QuantizedTensor) -> PackedWeight:
    """quantized::embedding_bag_prepack(Tensor weight) -> EmbeddingPackedParamsBase W_prepack"""
    if weight.dtype != torch.quint8:
        raise CaptureError(
            f"quantized::embedding_bag_prepack packs a table of {weight.dtype} in the model's forward; "
            "to fix this, pack it in the "
            "model's __init__, as torch.ao.nn.quantized.Embedding does"
        )
    return _packed(weight, None, {})


@table("quantized::embedding_bag_unpack")
def _table_unpack(W_prepack: PackedWeight) -> QuantizedTensor:
    """quantized::embedding_bag_unpack(EmbeddingPackedParamsBase W_prepack) -> Tensor W_origin"""
    weight = W_prepack.weight
    if weight.dtype != torch.quint8:
        raise CaptureError(
            f"quantized::embedding_bag_unpack returns a table of {weight.dtype}, which has two codes in a byte; "
            "to fix this, store the "
            "table as a float buffer"
        )
    return weight


@table("quantized::make_quantized_cell_params_dynamic")
def _dynamic_cell(
    w_ih: PackedWeight, w_hh: PackedWeight, bias_ih: torch.Tensor, bias_hh: torch.Tensor, reduce_range: bool = False
) -> PackedCell:
    """quantized::make_quantized_cell_params_dynamic(LinearPackedParamsBase w_ih, LinearPackedParamsBase w_hh, Tensor bias_ih,
    Tensor bias_hh, bool reduce_range=False) -> CellParamsBase

    The kernels use the biases of the packed weights.
    """
    return PackedCell("quantized_dynamic", w_ih, w_hh, reduce_range)


@table("quantized::make_quantized_cell_params_fp16")
def _half_cell(w_ih: PackedWeight, w_hh: PackedWeight) -> PackedCell:
    """quantized::make_quantized_cell_params_fp16(LinearPackedParamsBase w_ih, LinearPackedParamsBase w_hh) -> CellParamsBase"""
    return PackedCell("quantized_fp16", w_ih, w_hh, reduce_range=False)


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


@table("quantized::conv2d_unpack_sizes")
def _sizes(packed_weights: PackedWeight) -> tuple[Any, ...]:
    """quantized::conv2d_unpack_sizes(Any packed_weights) -> Any"""
    bias, settings = packed_weights.bias, packed_weights.settings
    lists = (list(settings[name]) for name in ("stride", "padding", "dilation"))
    return (list(packed_weights.weight.shape), None if bias is None else list(bias.shape), *lists, settings["groups"])


table("quantized::linear_unpack")(functools.partial(_unpack, 0))
table("quantized::conv_unpack")(functools.partial(_unpack, 2))
for _axes in (1, 2, 3):
    table(f"quantized::conv_transpose{_axes}d_prepack")(_conv_transpose_prepack)
    for _kind in (f"conv{_axes}d", f"conv_transpose{_axes}d"):
        table(f"quantized::{_kind}_unpack")(functools.partial(_unpack, _axes))
        for _name in ("stride", "padding", "dilation", "groups", "transpose", "output_padding") if _axes > 1 else ():
            table(f"quantized::{_kind}_{_name}")(functools.partial(_setting, _name))
