"""Normalizations: batch, instance, layer, group, RMS, local response; and weight normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of

__all__ = ["normalized"]


def normalized(op: Builder, x: Tensor, axes: Sequence[int], eps: float) -> Tensor:
    """``(x - mean) / sqrt(variance + eps)`` over the axes."""
    centered = op.Sub(x, op.ReduceMean(x, axes=list(axes), keepdims=1))
    variance = op.ReduceMean(op.Mul(centered, centered), axes=list(axes), keepdims=1)
    return op.Div(centered, op.Sqrt(op.Add(variance, eps)))  # type: ignore[no-any-return]


def _scaled(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else op.Mul(x, weight)
    return x if bias is None else op.Add(x, bias)  # type: ignore[no-any-return]


def _per_channel(op: Builder, values: Tensor | None, rank: int) -> Tensor | None:
    """A value for each channel, to be broadcast along axis 1."""
    return None if values is None else op.Unsqueeze(values, list(range(1, rank - 1))) if rank > 2 else values


def _channels(op: Builder, x: Tensor) -> int:
    shape = x.shape
    if shape is None or not isinstance(shape[1], int):
        raise op.error("the number of channels (axis 1) must be known at export")
    return shape[1]


@aten("batch_norm")
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
    cudnn_enabled: bool,
) -> Tensor:
    """batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
    float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    rank = rank_of(op, input)
    if training or running_mean is None or running_var is None:
        axes = [axis for axis in range(rank) if axis != 1]
        x = normalized(op, input, axes, eps)
        return _scaled(op, x, _per_channel(op, weight, rank), _per_channel(op, bias, rank))
    channels = _channels(op, input)
    scale = weight if weight is not None else op.constant(torch.ones(channels, dtype=running_mean.dtype))
    shift = bias if bias is not None else op.constant(torch.zeros(channels, dtype=running_mean.dtype))
    return op.BatchNormalization(input, scale, shift, running_mean, running_var, epsilon=eps)  # type: ignore[no-any-return]


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    op: Builder, input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, None, None]:
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    return batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps, False), None, None


@aten("instance_norm")
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
        return batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps, False)
    channels = _channels(op, input)
    scale = weight if weight is not None else op.constant(torch.ones(channels, dtype=input.dtype))
    shift = bias if bias is not None else op.constant(torch.zeros(channels, dtype=input.dtype))
    return op.InstanceNormalization(input, scale, shift, epsilon=eps)  # type: ignore[no-any-return]


@aten("layer_norm")
def layer_norm(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float, _: bool
) -> Tensor:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor"""
    return _scaled(op, normalized(op, input, range(-len(normalized_shape), 0), eps), weight, bias)


@aten("layer_norm", since=17)
def layer_norm_17(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float, _: bool
) -> Tensor:
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor"""
    if weight is None:
        sizes = op.static(normalized_shape, "normalized_shape")
        weight = op.constant(torch.ones(sizes, dtype=input.dtype))
    return op.LayerNormalization(input, weight, bias, axis=-len(normalized_shape), epsilon=eps)  # type: ignore[no-any-return]


@aten("native_layer_norm")
def native_layer_norm(
    op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
    -> (Tensor, Tensor, Tensor)"""
    axes = list(range(-len(normalized_shape), 0))
    mean = op.ReduceMean(input, axes=axes, keepdims=1)
    centered = op.Sub(input, mean)
    variance = op.ReduceMean(op.Mul(centered, centered), axes=axes, keepdims=1)
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, eps)))
    return _scaled(op, op.Mul(centered, inverse), weight, bias), mean, inverse


@aten("rms_norm")
def rms_norm(op: Builder, input: Tensor, normalized_shape: list[Any], weight: Tensor | None, eps: float | None) -> Tensor:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    squares = op.ReduceMean(op.Mul(input, input), axes=list(range(-len(normalized_shape), 0)), keepdims=1)
    return _scaled(op, op.Div(input, op.Sqrt(op.Add(squares, eps))), weight, None)


@aten("group_norm")
def group_norm(op: Builder, input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, _: bool) -> Tensor:
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enabled=True) -> Tensor"""
    rank, shape = rank_of(op, input), input.shape
    assert shape is not None
    grouped = op.Reshape(input, [0, num_groups, -1])
    one = op.constant(torch.ones(num_groups, dtype=input.dtype))
    zero = op.constant(torch.zeros(num_groups, dtype=input.dtype))
    x = op.InstanceNormalization(grouped, one, zero, epsilon=eps)
    static = [size if isinstance(size, int) else -1 for size in shape[1:]]
    back: Any = [0, *static] if static.count(-1) <= 1 else op.Shape(input)
    return _scaled(op, op.Reshape(x, back), _per_channel(op, weight, rank), _per_channel(op, bias, rank))


@aten("_weight_norm")
def weight_norm(op: Builder, v: Tensor, g: Tensor, dim: int) -> Tensor:
    """_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"""
    if op.is_static([v, g]):
        return op.constant(torch._weight_norm(v.const, g.const, dim))  # type: ignore[arg-type]
    rank = rank_of(op, v)
    axes = None if dim == -1 else [axis for axis in range(rank) if axis != dim % rank]
    return op.Mul(v, op.Div(g, op.ReduceL2(v, axes=axes, keepdims=1)))  # type: ignore[no-any-return]

