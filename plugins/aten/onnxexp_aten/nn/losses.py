"""Losses for numeric targets, with cosines and distances.

Calls with other dtypes than floats of one dtype are declined: torch's decomposition converts them.
"""

from __future__ import annotations

import math

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.norms import vector_norm
from onnxexp_aten.math.arithmetic import clamp_min, extreme, scaled, select
from onnxexp_aten.math.comparison_and_bitwise import equal, relate
from onnxexp_aten.math.functions_of_two import xlogy
from onnxexp_aten.nn.activation import log_sigmoid
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.read_arguments import axis_of, rank_of

table = SymbolicTable("aten")

NONE, MEAN = 0, 1
"""torch's codes of reductions; 2 is the sum."""


def floats_only(op: Builder, *tensors: Tensor | None) -> None:
    """Decline the call unless the given tensors are floats of one dtype."""
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) != 1 or not dtypes.pop().is_floating_point:
        op.decline("the tensors are not floats of one dtype")


def reduced_loss(op: Builder, loss: Tensor, reduction: int) -> Tensor:
    """Return the loss of each element, or their mean or sum."""
    if reduction == NONE or loss.rank == 0:
        return loss
    return reduced(op, "ReduceMean" if reduction == MEAN else "ReduceSum", loss)


# Distances


@table("l1_loss")
def l1_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    return reduced_loss(op, _distance(op, self, target), reduction)


@table("mse_loss")
def mse_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    floats_only(op, self, target)
    difference = compute(op, "Sub", self, target)
    return reduced_loss(op, compute(op, "Mul", difference, difference), reduction)


@table("smooth_l1_loss")
def smooth_l1_loss(op: Builder, self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor"""
    distance = _distance(op, self, target)
    return reduced_loss(op, _rounded_off(op, distance, beta, 1.0) if beta else distance, reduction)


@table("huber_loss")
def huber_loss(op: Builder, self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor"""
    return reduced_loss(op, _rounded_off(op, _distance(op, self, target), delta, delta), reduction)


def _distance(op: Builder, one: Tensor, other: Tensor) -> Tensor:
    floats_only(op, one, other)
    return compute(op, "Abs", compute(op, "Sub", one, other))


def _rounded_off(op: Builder, distance: Tensor, bound: float, slope: float) -> Tensor:
    """Compute a parabola below the bound, and a line of this slope above it."""
    parabola = scaled(op, compute(op, "Mul", distance, distance), 0.5 * slope / bound)
    line = scaled(op, compute(op, "Sub", distance, 0.5 * bound), slope)
    return select(op, compare(op, "Less", distance, bound), parabola, line)


@table("pairwise_distance")
def pairwise_distance(op: Builder, x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    """pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor"""
    floats_only(op, x1, x2)
    return vector_norm(op, compute(op, "Add", compute(op, "Sub", x1, x2), eps), p, [-1], keepdim)


@table("triplet_margin_loss")
def triplet_margin_loss(
    op: Builder,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Tensor:
    """triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06,
    bool swap=False, int reduction=Mean) -> Tensor"""
    near = pairwise_distance(op, anchor, positive, p, eps, False)
    far = pairwise_distance(op, anchor, negative, p, eps, False)
    if swap:
        far = extreme(op, "Min", far, pairwise_distance(op, positive, negative, p, eps, False))
    return _hinge(op, compute(op, "Sub", near, far), margin, reduction)


def _hinge(op: Builder, x: Tensor, margin: float, reduction: int) -> Tensor:
    return reduced_loss(op, clamp_min(op, compute(op, "Add", x, margin) if margin else x, 0), reduction)


# Cosines


@table("cosine_similarity")
def cosine_similarity(op: Builder, x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"""
    floats_only(op, x1, x2)
    axis = axis_of(op, x1, dim)
    if not x1.shape or not x2.shape or x1.rank != x2.rank or x1.shape[axis] != x2.shape[axis]:
        op.decline("the vectors differ in rank or length")
    units = [compute(op, "Div", x, clamp_min(op, vector_norm(op, x, 2, [axis], True), eps)) for x in (x1, x2)]
    return reduced(op, "ReduceSum", compute(op, "Mul", *units), [axis])


@table("cosine_embedding_loss")
def cosine_embedding_loss(op: Builder, input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    """cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor"""
    floats_only(op, input1, input2)
    axis = rank_of(op, target)
    product = reduced(op, "ReduceSum", compute(op, "Mul", input1, input2), [axis])
    squares = (reduced(op, "ReduceSumSquare", x, [axis]) for x in (input1, input2))
    lengths = compute(op, "Mul", *(compute(op, "Add", square, 1e-12) for square in squares))  # torch's epsilon
    cosine = compute(op, "Div", product, compute(op, "Sqrt", lengths))
    one, zero = op.constant(1.0, cosine.dtype), op.constant(0.0, cosine.dtype)
    apart = clamp_min(op, compute(op, "Sub", cosine, margin), 0)
    apart = select(op, equal(op, target, op.constant(-1, target.dtype)), apart, zero)
    alike = equal(op, target, op.constant(1, target.dtype))
    return reduced_loss(op, select(op, alike, compute(op, "Sub", one, cosine), apart), reduction)


# Two classes


@table("margin_ranking_loss")
def margin_ranking_loss(op: Builder, input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    """margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor"""
    floats_only(op, input1, input2, target)
    return _hinge(op, compute(op, "Mul", target, compute(op, "Sub", input2, input1)), margin, reduction)


@table("hinge_embedding_loss")
def hinge_embedding_loss(op: Builder, self: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    """hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor"""
    floats_only(op, self, target)
    zero = op.constant(0.0, self.dtype)
    apart = clamp_min(op, compute(op, "Sub", op.constant(margin, self.dtype), self), 0)
    apart = select(op, equal(op, target, op.constant(1.0, self.dtype)), zero, apart)
    alike = select(op, equal(op, target, op.constant(-1.0, self.dtype)), zero, self)
    return reduced_loss(op, compute(op, "Add", apart, alike), reduction)


@table("soft_margin_loss")
def soft_margin_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    floats_only(op, self, target)
    odds = compute(op, "Exp", compute(op, "Neg", compute(op, "Mul", self, target)))
    return reduced_loss(op, compute(op, "Log", compute(op, "Add", odds, 1)), reduction)


@table("binary_cross_entropy")
def binary_cross_entropy(op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    """binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor"""
    floats_only(op, self, target, weight)
    one = op.constant(1.0, self.dtype)
    lowest = op.constant(-100.0, self.dtype)  # torch clamps here
    no, yes = (extreme(op, "Max", compute(op, "Log", x), lowest) for x in (compute(op, "Sub", one, self), self))
    against = compute(op, "Mul", compute(op, "Sub", target, one), no)
    loss = compute(op, "Sub", against, compute(op, "Mul", target, yes))
    return _weighted(op, loss, weight, reduction)


@table("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,
    int reduction=Mean) -> Tensor"""
    floats_only(op, self, target, weight, pos_weight)
    one = op.constant(1.0, self.dtype)
    yes = log_sigmoid(op, self)
    if pos_weight is not None:
        factor = compute(op, "Add", compute(op, "Mul", compute(op, "Sub", pos_weight, one), target), one)
        yes = compute(op, "Mul", factor, yes)
    loss = compute(op, "Sub", compute(op, "Mul", compute(op, "Sub", one, target), self), yes)
    return _weighted(op, loss, weight, reduction)


def _weighted(op: Builder, loss: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    return reduced_loss(op, loss if weight is None else compute(op, "Mul", loss, weight), reduction)


# Distributions


@table("kl_div")
def kl_div(op: Builder, self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    """kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor"""
    floats_only(op, self, target)
    if log_target:
        loss = compute(op, "Mul", compute(op, "Exp", target), compute(op, "Sub", target, self))
    else:
        loss = compute(op, "Sub", xlogy(op, target, target), compute(op, "Mul", target, self))
    return reduced_loss(op, loss, reduction)


@table("poisson_nll_loss")
def poisson_nll_loss(
    op: Builder, input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor"""
    floats_only(op, input, target)
    rate = compute(op, "Exp", input) if log_input else input
    log_rate = input if log_input else compute(op, "Log", compute(op, "Add", input, eps))
    loss = compute(op, "Sub", rate, compute(op, "Mul", target, log_rate))
    return reduced_loss(op, compute(op, "Add", loss, _log_factorial(op, target)) if full else loss, reduction)


def _log_factorial(op: Builder, x: Tensor) -> Tensor:
    """Compute log(x!) by Stirling's formula, and 0 for x up to 1."""
    entropy = compute(op, "Sub", compute(op, "Mul", x, compute(op, "Log", x)), x)
    rest = scaled(op, compute(op, "Log", scaled(op, x, 2 * math.pi)), 0.5)
    small = relate(op, "LessOrEqual", x, op.constant(1.0, x.dtype))
    return select(op, small, op.constant(0.0, x.dtype), compute(op, "Add", entropy, rest))
