"""Losses with computed margins, deltas and tolerances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxexp_aten.capture.computed_numbers.norms import cosine_similarity, pairwise_distance
from onnxexp_aten.capture.computed_numbers.table import Compositions, Number

table = Compositions()


@table("delta", (functional, "huber_loss"))
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: Number = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Square a small difference; a large one counts linearly."""
    size = (input - target).abs()
    loss = torch.where(size <= delta, 0.5 * size.square(), (size - 0.5 * delta) * delta)
    return _reduced(loss if weight is None else loss * weight, reduction)


@table("beta", (functional, "smooth_l1_loss"))
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: Number = 1.0
) -> Tensor:
    """Square a small difference, divided by `beta`; a large one counts linearly."""
    size = (input - target).abs()
    loss = torch.where(size < beta, 0.5 * size.square() / beta, size - 0.5 * beta)
    return _reduced(loss, reduction, size_average, reduce)


@table("margin", (functional, "margin_ranking_loss"))
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: Number = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Penalize pairs whose order is not that of the target."""
    return _reduced((margin - target * (input1 - input2)).clamp_min(0), reduction, size_average, reduce)


@table("margin", (functional, "hinge_embedding_loss"))
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: Number = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Return distances for target 1; for target -1, their shortfall to the margin."""
    lacking = torch.where(target == 1, 0, (margin - input).clamp_min(0))
    return _reduced(lacking + torch.where(target == -1, 0, input), reduction, size_average, reduce)


@table("margin", (functional, "cosine_embedding_loss"))
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: Number = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Penalize the angle for target 1, and a cosine above the margin for target -1."""
    cosine = cosine_similarity(input1, input2, -1, 1e-8)
    loss = torch.where(target == 1, 1 - cosine, 0) + torch.where(target == -1, (cosine - margin).clamp_min(0), 0)
    return _reduced(loss, reduction, size_average, reduce)


@table("margin p eps", (functional, "triplet_margin_loss"))
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: Number = 1.0,
    p: Number = 2.0,
    eps: Number = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Penalize a negative that is not farther than the positive by the margin."""
    near, far = (pairwise_distance(anchor, other, p, eps) for other in (positive, negative))
    if swap:
        far = torch.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced((near - far + margin).clamp_min(0), reduction, size_average, reduce)


@table("eps", (functional, "poisson_nll_loss"))
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: Number = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log likelihood; `eps` counts without `log_input` only."""
    if log_input:
        return functional.poisson_nll_loss(input, target, True, full, size_average, 1e-8, reduce, reduction)
    loss = input - target * torch.log(input + eps)
    if full:
        stirling = target * torch.log(target) - target + 0.5 * torch.log(2 * torch.pi * target)
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, reduction, size_average, reduce)


@table("label_smoothing", (functional, "cross_entropy"))
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: Number = 0.0,
) -> Tensor:
    """Mix the loss of the targets with that of all classes."""
    reduction = _kind(reduction, size_average, reduce)
    axis = 0 if input.dim() == 1 else 1
    share = label_smoothing / input.shape[axis]
    if target.is_floating_point():
        target = target * (1 - label_smoothing) + share
        return functional.cross_entropy(input, target, weight, reduction=reduction)
    chances = functional.log_softmax(input, axis)
    own = functional.nll_loss(chances, target, weight, ignore_index=ignore_index, reduction=reduction)
    if weight is not None:
        chances = chances * weight.reshape(-1, *[1] * (input.dim() - axis - 1))
    counts = target != ignore_index
    smooth = torch.where(counts, -chances.sum(axis), 0)
    if reduction == "mean":
        weights = counts if weight is None else torch.where(counts, weight[torch.where(counts, target, 0)], 0)
        smooth = smooth.sum() / weights.sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return own * (1 - label_smoothing) + smooth * share


def _reduced(loss: Tensor, reduction: str, size_average: Any = None, reduce: Any = None) -> Tensor:
    reduction = _kind(reduction, size_average, reduce)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _kind(reduction: str, size_average: Any, reduce: Any) -> str:
    """Return the reduction for torch's former options, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
