"""Normalizations, distances and variances with computed numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxexp_aten.capture.computed_numbers.table import Compositions, Number

table = Compositions()


@table("eps", (functional, "layer_norm"), (torch, "layer_norm"))
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Number = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Normalize over the last axes."""
    return _affine(_normalized(_wide(input), _last_axes(normalized_shape), eps), weight, bias).to(input.dtype)


@table("eps", (functional, "rms_norm"), (torch, "rms_norm"))
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: Number = None) -> Tensor:
    """Divide by the root of the mean square over the last axes."""
    x = _wide(input)
    mean = (x * x).mean(_last_axes(normalized_shape), keepdim=True)
    return _affine(x * torch.rsqrt(mean + eps), weight, None).to(input.dtype)


@table("eps", (functional, "group_norm"), (torch, "group_norm"))
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Number = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Normalize over the channels of a group and all positions."""
    grouped = _wide(input).unflatten(1, (num_groups, -1))  # type: ignore[no-untyped-call]
    x = _normalized(grouped, tuple(range(2, grouped.dim())), eps).flatten(1, 2)
    return _affine(x, _per_channel(weight, input), _per_channel(bias, input)).to(input.dtype)


@table("momentum eps", (functional, "batch_norm"))
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Number = 0.1,
    eps: Number = 1e-5,
) -> Tensor:
    """Normalize over all axes but the channels, or by the running statistics."""
    x, axes = _wide(input), (0, *range(2, input.dim()))
    if training:
        if running_mean is not None and running_var is not None:
            running_mean.mul_(1 - momentum).add_(x.mean(axes) * momentum)
            running_var.mul_(1 - momentum).add_(x.var(axes) * momentum)
        x = _normalized(x, axes, eps)
    else:
        mean, variance = _per_channel(running_mean, input), _per_channel(running_var, input)
        x = (x - mean) * torch.rsqrt(variance + eps)
    return _affine(x, _per_channel(weight, input), _per_channel(bias, input)).to(input.dtype)


@table("momentum eps", (functional, "instance_norm"))
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: Number = 0.1,
    eps: Number = 1e-5,
) -> Any:
    """Normalize each channel over all positions."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None:  # eager writes the running statistics
        return NotImplemented
    x = _normalized(_wide(input), tuple(range(2, input.dim())), eps)
    return _affine(x, _per_channel(weight, input), _per_channel(bias, input)).to(input.dtype)


@table("eps", (torch, "cosine_similarity"), (functional, "cosine_similarity"))
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: Number = 1e-8) -> Tensor:
    """Compute the cosine of the angle between vectors, each divided by its length."""
    x1, x2 = torch.broadcast_tensors(x1, x2)  # type: ignore[no-untyped-call]
    units = (x / torch.linalg.vector_norm(x, dim=dim, keepdim=True).clamp_min(eps) for x in (x1, x2))
    return math.prod(units, start=torch.ones((), dtype=x1.dtype)).sum(dim)


@table("p eps", (torch, "pairwise_distance"), (functional, "pairwise_distance"))
def pairwise_distance(x1: Tensor, x2: Tensor, p: Number = 2.0, eps: Number = 1e-6, keepdim: bool = False) -> Tensor:
    """Compute the norm of the difference of the vectors on the last axis."""
    return torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


@table("p", (torch, "cdist"))
def cdist(x1: Tensor, x2: Tensor, p: Number = 2.0, compute_mode: Any = None) -> Tensor:
    """Compute the distances between all rows of two matrices."""
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@table("correction", (torch, "var"), (Tensor, "var"))
def var(input: Tensor, dim: Any = None, *, correction: Number = 1, keepdim: bool = False) -> Tensor:
    """Compute the variance, with a computed number in the divisor."""
    axes = tuple(range(input.dim())) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    squares = (input - input.mean(axes, keepdim=True)).square().sum(axes, keepdim=keepdim)
    count = math.prod((input.shape[axis] for axis in axes), start=1)
    return squares / (squares.new_ones(()) * count - correction).clamp_min(0)


@table("correction", (torch, "std"), (Tensor, "std"))
def std(input: Tensor, dim: Any = None, *, correction: Number = 1, keepdim: bool = False) -> Tensor:
    """Compute the root of the variance."""
    return var(input, dim, correction=correction, keepdim=keepdim).sqrt()


@table("correction", (torch, "var_mean"))
def var_mean(input: Tensor, dim: Any = None, *, correction: Number = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Compute the variance and the mean."""
    return var(input, dim, correction=correction, keepdim=keepdim), input.mean(dim, keepdim=keepdim)


@table("correction", (torch, "std_mean"))
def std_mean(input: Tensor, dim: Any = None, *, correction: Number = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Compute the standard deviation and the mean."""
    return std(input, dim, correction=correction, keepdim=keepdim), input.mean(dim, keepdim=keepdim)


def _wide(x: Tensor) -> Tensor:
    """Return a tensor of half precision as float32, in which torch computes."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _normalized(x: Tensor, axes: tuple[int, ...], eps: Number) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)


def _last_axes(shape: Any) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def _per_channel(values: Tensor | None, x: Tensor) -> Any:
    """Append axes, so that one value for each channel fits axis 1 of `x`."""
    return None if values is None else values.reshape(-1, *[1] * (x.dim() - 2))


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
