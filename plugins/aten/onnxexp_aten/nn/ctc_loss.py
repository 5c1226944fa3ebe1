"""Connectionist temporal classification loss by the forward recursion.

Source: "Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks", Graves et
al. 2006, section 4.1.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.nn.losses import MEAN, NONE
from onnxexp_aten.nn.valid_steps import valid_steps
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import squeezed, unsqueezed

table = SymbolicTable("aten")

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
