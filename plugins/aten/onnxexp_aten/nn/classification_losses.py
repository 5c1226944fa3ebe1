"""Losses for class targets: likelihoods and margins."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import TensorType
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.math.arithmetic import clamp_min, scaled, select
from onnxexp_aten.nn.losses import MEAN, NONE, floats_only, reduced_loss
from onnxexp_aten.nn.softmax import softmax_over
from onnxexp_aten.reduction.reductions import any_, reduced
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import squeezed, unsqueezed

table = SymbolicTable("aten")


# Likelihoods


@table("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: Any
) -> tuple[Tensor, Tensor]:
    """nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)
    -> (Tensor output, Tensor total_weight)"""
    return _nll(op, self, target, weight, reduction, ignore_index)


@table("nll_loss", "nll_loss2d", "nll_loss_nd")
def nll_loss(op: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: Any) -> Tensor:
    """nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor"""
    return _nll(op, self, target, weight, reduction, ignore_index)[0]


@table("cross_entropy_loss")
def cross_entropy_loss(
    op: Builder,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: Any,
    label_smoothing: float,
) -> Tensor:
    """cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100,
    float label_smoothing=0.0) -> Tensor"""
    floats_only(op, self, weight)
    logs = softmax_over(op, "LogSoftmax", self, _class_axis(op, self))
    if not target.dtype.is_floating_point:
        return _nll(op, logs, target, weight, reduction, ignore_index, label_smoothing)[0]
    floats_only(op, self, target)
    axis = _class_axis(op, self)
    logs = _weighted(op, logs, weight)
    chosen = reduced(op, "ReduceSum", compute(op, "Mul", logs, target), [axis])
    return reduced_loss(op, compute(op, "Neg", _smoothed(op, chosen, logs, axis, label_smoothing)), reduction)


def _class_axis(op: Builder, x: Tensor) -> int:
    """Return the axis of the classes: 1, or 0 without a batch."""
    return 0 if rank_of(op, x) == 1 else 1


def _nll(
    op: Builder,
    logs: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: Any,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihood and the total weight of counted targets.

    Ignored targets do not count. torch divides by the total weight for the mean.
    """
    floats_only(op, logs, weight)
    axis = _class_axis(op, logs)
    if target.rank != rank_of(op, logs) - 1:
        op.decline("the target must have one class for each element")
    labels = op.cast(target, torch.int64)
    counted = op.Not(op.Equal(labels, ignore_index))
    places = op.Where(counted, labels, op.constant(0))  # an ignored target may be no valid class
    zero = op.constant(0.0, logs.dtype)
    logs = _weighted(op, logs, weight)
    chosen = gather(op, logs, axis, unsqueezed(op, places, [axis] if axis else []), False)
    chosen = _smoothed(op, squeezed(op, chosen, [axis]) if axis else chosen, logs, axis, smoothing)
    loss = select(op, counted, compute(op, "Neg", chosen), zero)
    if reduction == NONE and axis:
        return loss, zero
    shares = op.cast(counted, logs.dtype) if weight is None else select(op, counted, op.Gather(weight, places, axis=0), zero)
    total = shares if shares.rank == 0 else reduced(op, "ReduceSum", shares)
    if reduction == NONE:
        return loss, total
    loss = loss if loss.rank == 0 else reduced(op, "ReduceSum", loss)
    return (compute(op, "Div", loss, total) if reduction == MEAN else loss), total


def _weighted(op: Builder, logs: Tensor, weight: Tensor | None) -> Tensor:
    """Multiply each class by its weight."""
    if weight is None:
        return logs
    return compute(op, "Mul", logs, unsqueezed(op, weight, range(1, rank_of(op, logs) - 1)))


def _smoothed(op: Builder, chosen: Tensor, logs: Tensor, axis: int, smoothing: float) -> Tensor:
    """Mix the likelihood of the target with the mean over all classes."""
    if not smoothing:
        return chosen
    mean = scaled(op, reduced(op, "ReduceMean", logs, [axis]), smoothing)
    return compute(op, "Add", scaled(op, chosen, 1 - smoothing), mean)


# Margins


@table("multi_margin_loss")
def multi_margin_loss(
    op: Builder, self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None, reduction: int
) -> Tensor:
    """multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=Mean)
    -> Tensor"""
    floats_only(op, self, weight)
    x, places = _as_rows(op, self), op.Reshape(target, [-1, 1])
    violation = compute(op, "Sub", compute(op, "Add", x, margin), gather(op, x, 1, places, False))
    violation = clamp_min(op, violation, 0)
    violation = compute(op, "Mul", violation, violation) if p == 2 else violation
    if weight is not None:
        violation = compute(op, "Mul", violation, op.Gather(weight, places, axis=0))
    classes = arange_of(op, 0, size_at(op, x, 1), 1, torch.int64)
    violation = select(op, op.Equal(classes, places), op.constant(0.0, x.dtype), violation)
    return _reduce_rows(op, reduced(op, "ReduceMean", violation, [1]), reduction)


@table("multilabel_margin_loss")
def multilabel_margin_loss(op: Builder, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    floats_only(op, self)
    x, labels = _as_rows(op, self), _as_rows(op, target)
    size = size_at(op, x, 1)
    classes = arange_of(op, 0, size, 1, torch.int64)
    ends = op.Where(compare(op, "Less", labels, 0), classes, size)
    is_label = op.Less(classes, reduced(op, "ReduceMin", ends, [1], True))  # the labels of a row end before the first -1
    targets = unsqueezed(op, op.Where(is_label, labels, op.constant(-1)), [2])
    is_other_class = op.Not(any_(op, op.Equal(targets, classes), [1], True))
    label_scores = unsqueezed(op, gather(op, x, 1, op.Where(is_label, labels, op.constant(0)), False), [2])
    violation = clamp_min(op, compute(op, "Sub", compute(op, "Add", unsqueezed(op, x, [1]), 1), label_scores), 0)
    violation = select(op, op.And(is_other_class, unsqueezed(op, is_label, [2])), violation, op.constant(0.0, x.dtype))
    return _reduce_rows(op, reduced(op, "ReduceSum", reduced(op, "ReduceMean", violation, [2]), [1]), reduction)


def _as_rows(op: Builder, x: Tensor) -> Tensor:
    """View a single row as a matrix."""
    return x if rank_of(op, x) == 2 else op.Reshape(x, [1, -1])


def _reduce_rows(op: Builder, loss: Tensor, reduction: int) -> Tensor:
    """Reduce the loss; a single row keeps the rank of the captured program."""
    type_ = op.node.outputs[0].type
    returns_0d = reduction == NONE and isinstance(type_, TensorType) and type_.sizes == ()
    return squeezed(op, loss, [0]) if returns_0d else reduced_loss(op, loss, reduction)
