"""Losses for class targets: likelihoods and margins.

The connectionist temporal classification loss is the forward recursion.

Its source: "Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks", Graves et
al. 2006, section 4.1.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import TensorType
from onnxexp_aten.creation.ranges import arange_of, valid_steps
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.math.arithmetic import clamp_min, extreme, scaled, select
from onnxexp_aten.nn.activation import softmax_over
from onnxexp_aten.nn.losses import MEAN, NONE, floats_only, reduced_loss
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.reduction.reductions import any_, reduced
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.read_arguments import rank_of
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


_NEVER = -math.inf
"""The logarithm of a probability of zero."""


@table("ctc_loss.IntList", "ctc_loss.Tensor")
def ctc_loss(
    op: Builder,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0,
    int reduction=Mean, bool zero_infinity=False) -> Tensor"""
    alone = rank_of(op, log_probs) == 2
    x = unsqueezed(op, log_probs, [1]) if alone else log_probs
    steps, lengths = (op.Reshape(op.constant(each, torch.int64), [-1]) for each in (input_lengths, target_lengths))
    targets, size = op.cast(targets, torch.int64), unsqueezed(op, lengths, [1])
    places = _places(op, targets, lengths)
    states = _states(op, targets, size, places, blank)
    loss = _losses(op, x, valid_steps(op, size_at(op, x, 0), steps), states, size, places)
    if zero_infinity:
        loss = op.Where(op.Equal(loss, math.inf), op.constant(0, loss.dtype), loss)
    if reduction == NONE:
        return squeezed(op, loss, [0]) if alone else loss
    if reduction == MEAN:
        return reduced(op, "ReduceMean", op.Div(loss, op.cast(extreme(op, "Max", lengths, op.constant(1)), loss.dtype)))
    return reduced(op, "ReduceSum", loss)


def _places(op: Builder, targets: Tensor, lengths: Tensor) -> Tensor:
    """Return the state numbers, int64[states]: labels with blanks around each."""
    if rank_of(op, targets) == 2:
        longest = size_at(op, targets, 1)
    else:
        longest = reduced(op, "ReduceMax", lengths)
        longest = op.static(longest) if op.is_static(longest) else longest
    count = 2 * longest + 1 if isinstance(longest, int) else op.Add(op.Mul(longest, 2), 1)
    return arange_of(op, 0, count, 1, torch.int64)


def _states(op: Builder, targets: Tensor, size: Tensor, places: Tensor, blank: int) -> Tensor:
    """Return labels and blanks of each sequence, int64[batch, states].

    `size`, int64[batch, 1], counts the labels. `targets` is padded, [batch, longest], or one sequence after the other; it
    gets a blank in front.
    """
    number = op.Mul(op.Mod(places, 2), op.Div(op.Add(places, 1), 2))  # 0, 1, 0, 2, 0, …: the label's number, 0 for a blank
    number = op.Where(op.Less(size, number), op.constant(0), number)
    if rank_of(op, targets) == 2:
        front = op.Add(op.Mul(size, 0), op.constant(blank, torch.int64))
        return op.GatherElements(op.Concat(front, targets, axis=1), number, axis=1)
    before = op.Sub(running_sum(op, size, 0), size)
    number = op.Where(op.cast(number, torch.bool), op.Add(before, number), op.constant(0))
    return op.Gather(op.Concat(op.constant([blank], torch.int64), targets, axis=0), number, axis=0)


def _losses(op: Builder, x: Tensor, inside: Tensor, states: Tensor, size: Tensor, places: Tensor) -> Tensor:
    """Compute losses [batch] from log-probabilities [time, batch, classes].

    `inside`, bool[time, batch], marks the valid steps. A state is reached from itself, from its predecessor, and from the
    state before that unless both are the same label or blanks.
    """
    zero, never = op.constant(0, x.dtype), op.constant(_NEVER, x.dtype)
    nothing = op.cast(op.Mul(size, 0), x.dtype)
    gap = op.Add(nothing, op.constant([_NEVER, _NEVER], x.dtype))
    closed = op.Equal(states, op.Gather(states, extreme(op, "Max", op.Sub(places, 2), op.constant(0)), axis=1))

    def step(alpha: Tensor, now: Tensor, *counts: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        before = op.Concat(gap, alpha, axis=1)
        one, two = op.Slice(before, [1], [-1], [1]), op.Slice(before, [0], [-2], [1])
        after = op.Add(_log_sum(op, alpha, one, op.Where(closed, never, two)), op.GatherElements(now, states, axis=1))
        return [op.Where(counts[0], after, alpha) if counts else after], []

    start = op.Add(nothing, op.Where(op.Equal(places, 0), zero, never))
    whole = inside.const is not None and bool(inside.const.all())
    alpha = op.scan(step, [start], [x] if whole else [x, unsqueezed(op, inside, [2])])[0]
    before, end = op.Concat(gap, alpha, axis=1), op.Mul(size, 2)  # without labels, the gap precedes the last blank
    ends = (op.GatherElements(before, op.Add(end, place), axis=1) for place in (1, 2))
    return op.Sub(zero, squeezed(op, _log_sum(op, *ends), [1]))


def _log_sum(op: Builder, *terms: Tensor) -> Tensor:
    """Compute log(exp(a) + exp(b) + …), also where all terms are minus infinity."""
    base = compute(op, "Max", *terms, torch.finfo(terms[0].dtype).min)
    return op.Add(op.Log(op.Sum(*(op.Exp(op.Sub(term, base)) for term in terms))), base)
