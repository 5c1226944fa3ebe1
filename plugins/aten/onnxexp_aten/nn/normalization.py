"""Batch, instance, group, layer and RMS normalization; weight norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compute, runs
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import fixed, size_at
from onnxexp_aten.support.view_nodes import reshaped, unsqueezed

table = SymbolicTable("aten")

_HALVES = (torch.float16, torch.bfloat16)


def widened(op: Builder, function: Callable[..., Any], *tensors: Tensor | None) -> Any:
    """Call `function` with half precision widened to float32, as torch does.

    All tensors are cast to the dtype of the first, or to float32 where that is a half.
    """
    first = tensors[0]
    assert first is not None
    inner = torch.float32 if first.dtype in _HALVES else first.dtype
    result = function(*(None if tensor is None else op.cast(tensor, inner) for tensor in tensors))
    if isinstance(result, tuple):
        return tuple(None if part is None else op.cast(part, first.dtype) for part in result)
    return op.cast(result, first.dtype)


def normalized(op: Builder, x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize over the axes: ``(x - mean) / sqrt(variance + eps)``.

    Also returns the mean and ``sqrt(variance + eps)``.
    """
    mean = op.ReduceMean(x, axes=list(axes), keepdims=1)
    centered = op.Sub(x, mean)
    variance = op.ReduceMean(op.Mul(centered, centered), axes=list(axes), keepdims=1)
    deviation = op.Sqrt(op.Add(variance, eps))
    return op.Div(centered, deviation), mean, deviation


def _scaled(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else op.Mul(x, weight)
    return x if bias is None else op.Add(x, bias)


def _by_channel(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, rank: int) -> Tensor:
    """Scale and shift each channel (axis 1)."""
    axes = range(1, rank - 1)
    spread = (None if values is None else unsqueezed(op, values, axes) for values in (weight, bias))
    return _scaled(op, x, *spread)


def _composed(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, axes: Sequence[int], eps: float) -> Tensor:
    """Normalize over the axes, then scale and shift each channel."""
    rank = rank_of(op, x)
    return widened(
        op, lambda wide, gamma, beta: _by_channel(op, normalized(op, wide, axes, eps)[0], gamma, beta, rank), x, weight, bias
    )


def _each(op: Builder, x: Tensor, value: float, dtype: torch.dtype) -> Tensor:
    """Repeat a number for each channel (axis 1)."""
    channels = size_at(op, x, 1)
    if isinstance(channels, int):
        return op.constant(torch.full((channels,), value, dtype=dtype))
    return filled(op, [channels], value, dtype)


def _last(normalized_shape: Sequence[Any]) -> list[int]:
    return list(range(-len(normalized_shape), 0))


# Batch


@table("batch_norm")
def batch_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
    float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if training or running_mean is None or running_var is None:
        axes = [axis for axis in range(rank_of(op, input)) if axis != 1]
        return _composed(op, input, weight, bias, axes, eps)
    return _with_statistics(op, input, weight, bias, running_mean, running_var, eps)


def _with_statistics(
    op: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float
) -> Tensor:
    scale = _each(op, input, 1, mean.dtype) if weight is None else weight
    shift = _each(op, input, 0, mean.dtype) if bias is None else bias
    own = [input, scale, shift, mean, variance]
    if len({tensor.dtype for tensor in own}) == 1 and runs(op, "BatchNormalization", input.dtype):
        return op.BatchNormalization(*own, epsilon=eps)
    return widened(op, lambda *same: op.BatchNormalization(*same, epsilon=eps), *own)


def _with_batch_statistics(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Apply batch normalization in training mode.

    Returns the result, the batch's mean and inverse deviation, and the updated running statistics.
    """
    rank = rank_of(op, input)
    axes = [axis for axis in range(rank) if axis != 1]

    def computed(x: Tensor, gamma: Tensor | None, beta: Tensor | None, *running: Tensor | None) -> tuple[Any, ...]:
        result, mean, deviation = normalized(op, x, axes, eps)
        means, deviations = op.Squeeze(mean, axes=axes), op.Squeeze(deviation, axes=axes)
        count = op.cast(op.Div(op.Size(x), size_at(op, x, 1)), x.dtype)
        variance = op.Mul(op.Sub(op.Mul(deviations, deviations), eps), op.Div(count, op.Sub(count, 1.0)))
        moved = (_moved(op, old, new, momentum) for old, new in zip(running, (means, variance), strict=True))
        return _by_channel(op, result, gamma, beta, rank), means, op.Reciprocal(deviations), *moved

    return widened(op, computed, input, weight, bias, running_mean, running_var)


def _moved(op: Builder, old: Tensor | None, new: Tensor, momentum: float) -> Tensor | None:
    return None if old is None else op.Add(op.Mul(old, 1.0 - momentum), op.Mul(new, momentum))


@table("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_inference(
    op: Builder, input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    result = _with_statistics(op, input, weight, bias, running_mean, running_var, eps)
    results = result, _nothing(op, 1), _nothing(op, 2), op.constant(torch.empty(0, dtype=torch.uint8))
    return results[: len(op.node.outputs)]


def _nothing(op: Builder, index: int) -> Tensor:
    """Return an empty tensor in place of statistics that are not computed."""
    return op.constant(torch.empty(0, dtype=out_dtype(op, index)))


@table("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def native_batch_norm(
    op: Builder,
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, bool training, float momentum, float eps)
    -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""
    if training:
        return _with_batch_statistics(op, input, weight, bias, running_mean, running_var, momentum, eps)[: len(op.node.outputs)]
    result = _with_statistics(op, input, weight, bias, running_mean, running_var, eps)
    return (result, _nothing(op, 1), _nothing(op, 2), running_mean, running_var)[: len(op.node.outputs)]


@table("_native_batch_norm_legit.no_stats")
def native_batch_norm_alone(
    op: Builder, input: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps)
    -> (Tensor, Tensor, Tensor)"""
    return _with_batch_statistics(op, input, weight, bias, None, None, momentum, eps)[:3]


@table("_batch_norm_with_update_functional")
def batch_norm_update(
    op: Builder, input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Any, ...]:
    """_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var,
    float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"""
    results = _with_batch_statistics(op, input, weight, bias, running_mean, running_var, momentum, eps)
    return *results[:3], op.constant(torch.empty(0, dtype=torch.uint8)), *results[3:]


# Instance


@table("instance_norm")
def instance_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return _with_statistics(op, input, weight, bias, running_mean, running_var, eps)
    return _by_instance(op, input, weight, bias, eps)


def _by_instance(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Normalize every channel of every sample by itself."""
    if not runs(op, "InstanceNormalization", x.dtype):
        return _composed(op, x, weight, bias, range(2, rank_of(op, x)), eps)
    scale = _each(op, x, 1, x.dtype) if weight is None else weight
    shift = _each(op, x, 0, x.dtype) if bias is None else bias
    return compute(op, "InstanceNormalization", x, scale, shift, epsilon=eps)


# Group


@table("group_norm")
def group_norm(
    op: Builder,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enabled=True) -> Tensor"""
    shape = input.shape or ()
    if shape[1] == num_groups and len(shape) > 2:
        return _by_instance(op, input, weight, bias, eps)
    dynamic = sum(isinstance(size, SymbolicSize) for size in shape[1:])
    grouped = op.Reshape(input, [0, num_groups, -1 if dynamic else math.prod(fixed(shape[1:])) // num_groups])
    alone = _by_instance(op, grouped, None, None, eps)
    whole = reshaped(op, alone, shape) if dynamic <= 1 else op.Reshape(alone, op.Shape(input))
    scale, shift = (None if values is None else op.cast(values, input.dtype) for values in (weight, bias))
    return _by_channel(op, whole, scale, shift, len(shape))


@table("native_group_norm")
def native_group_norm(
    op: Builder, input: Tensor, weight: Any, bias: Any, N: Any, C: Any, HxW: Any, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps)
    -> (Tensor, Tensor, Tensor)"""
    grouped = op.Reshape(input, [0, group, -1])
    _, mean, deviation = widened(op, lambda x: normalized(op, x, [2], eps), grouped)
    mean, inverse = (op.Squeeze(values, axes=[2]) for values in (mean, op.Reciprocal(deviation)))
    return group_norm(op, input, group, weight, bias, eps), mean, inverse


# Layer


@table("layer_norm")
def layer_norm(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float, *_: bool
) -> Tensor:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor"""
    return _composed_layer_norm(op, input, normalized_shape, weight, bias, eps)[0]


def _composed_layer_norm(
    op: Builder, x: Tensor, normalized_shape: Sequence[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    def computed(x: Tensor, gamma: Tensor | None, beta: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        result, mean, deviation = normalized(op, x, _last(normalized_shape), eps)
        return _scaled(op, result, gamma, beta), mean, op.Reciprocal(deviation)

    return widened(op, computed, x, weight, bias)


@table("layer_norm", since=17)
def layer_norm_17(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float, *_: bool
) -> Tensor:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor"""
    fused = _fused_layer_norm(op, input, normalized_shape, weight, bias, eps)
    return layer_norm(op, input, normalized_shape, weight, bias, eps) if fused is None else fused


def _fused_layer_norm(
    op: Builder, x: Tensor, normalized_shape: Sequence[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor | None:
    """Emit LayerNormalization; return None for float64 and for an unknown scale.

    ONNX Runtime's kernel sums float64 as float32.
    """
    scale = _scale(op, x, normalized_shape, weight)
    if x.dtype == torch.float64 or scale is None:
        return None
    shift = None if bias is None else op.cast(bias, x.dtype)
    return op.LayerNormalization(x, scale, shift, axis=-len(normalized_shape), epsilon=eps)


def _scale(op: Builder, x: Tensor, normalized_shape: Sequence[Any], weight: Tensor | None) -> Tensor | None:
    """Return the fused operators' scale, ones by default, or None for an unknown size."""
    if weight is not None:
        return op.cast(weight, x.dtype)
    if not op.is_static(normalized_shape):
        return None
    return op.constant(torch.ones(op.static(normalized_shape), dtype=x.dtype))


@table("native_layer_norm")
def native_layer_norm(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
    -> (Tensor, Tensor, Tensor)"""
    return _composed_layer_norm(op, input, normalized_shape, weight, bias, eps)


@table("native_layer_norm", since=17)
def native_layer_norm_17(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
    -> (Tensor, Tensor, Tensor)"""
    composed, mean, inverse = _composed_layer_norm(op, input, normalized_shape, weight, bias, eps)
    fused = _fused_layer_norm(op, input, normalized_shape, weight, bias, eps)
    return composed if fused is None else fused, mean, inverse


# Root mean square


@table("rms_norm")
def rms_norm(op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, eps: float | None) -> Tensor:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    return fused_rms_norm(op, input, normalized_shape, weight, eps)[0]


@table("_fused_rms_norm")
def fused_rms_norm(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""

    def computed(x: Tensor, gamma: Tensor | None) -> tuple[Tensor, Tensor]:
        squares = op.ReduceMean(op.Pow(x, 2.0), axes=_last(normalized_shape), keepdims=1)
        root = op.Sqrt(op.Add(squares, _eps(x, eps)))  # ONNX Runtime fuses exactly these nodes
        return _scaled(op, op.Div(x, root), gamma, None), op.Reciprocal(root)

    return widened(op, computed, input, weight)


def _eps(x: Tensor, eps: float | None) -> float:
    return torch.finfo(torch.float32 if x.dtype in _HALVES else x.dtype).eps if eps is None else eps


@table("rms_norm", since=23)
def rms_norm_23(op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, eps: float | None) -> Tensor:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    scale = _scale(op, input, normalized_shape, weight)
    if scale is None:
        return rms_norm(op, input, normalized_shape, weight, eps)
    return op.RMSNormalization(input, scale, axis=-len(normalized_shape), epsilon=_eps(input, eps))


# Weights


@table("_weight_norm")
def weight_norm(op: Builder, v: Tensor, g: Tensor, dim: int) -> Tensor:
    """_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"""
    if v.const is not None and g.const is not None:
        return op.constant(torch._weight_norm(v.const, g.const, dim))
    rank = rank_of(op, v)
    axes = None if dim == -1 else [axis for axis in range(rank) if axis != dim % rank]
    return op.Mul(v, op.Div(g, op.ReduceL2(v, axes=axes, keepdims=1)))
