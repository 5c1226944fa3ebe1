"""Connectionist temporal classification: the loss by the forward recursion over the labels with blanks between them.

Source: "Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks", Graves et
al. 2006, section 4.1.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of
from onnxexp_aten.creation import arange_of
from onnxexp_aten.cumulative import running_sum
from onnxexp_aten.elementwise import extreme
from onnxexp_aten.layout import size_at, squeezed, unsqueezed
from onnxexp_aten.packing import within
from onnxexp_aten.reduction import reduced

__all__: list[str] = []

_NEVER = -math.inf
"""The logarithm of a probability of zero."""

_NONE, _MEAN = 0, 1
"""torch's numbers of reductions; 2 is the sum."""


@dataclasses.dataclass(frozen=True)
class _Labels:
    """Of each sequence the labels, a blank before, between and after them.

    Attributes:
        extended: int64[batch, 2 * longest + 1]
        skips: bool, like `extended`: may the blank in front be left out?
        lengths: int64[batch, 1], how many labels there are
    """

    extended: Tensor
    skips: Tensor
    lengths: Tensor


@aten("ctc_loss.IntList", "ctc_loss.Tensor")
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
    labels = _labels(op, op.cast(targets, torch.int64), lengths, blank)
    loss = _losses(op, x, within(op, x, steps), labels)
    if zero_infinity:
        loss = op.Where(op.Equal(loss, math.inf), op.constant(0, loss.dtype), loss)
    if reduction == _NONE:
        return squeezed(op, loss, [0]) if alone else loss
    if reduction == _MEAN:
        return reduced(op, "ReduceMean", op.Div(loss, op.cast(extreme(op, "Max", lengths, op.constant(1)), loss.dtype)))
    return reduced(op, "ReduceSum", loss)


def _labels(op: Builder, targets: Tensor, lengths: Tensor, blank: int) -> _Labels:
    """`targets` is padded, [batch, longest], or holds one sequence after the other."""
    size = unsqueezed(op, lengths, [1])
    if rank_of(op, targets) == 2:
        places = arange_of(op, 0, size_at(op, targets, 1), 1, torch.int64)
    else:
        longest = reduced(op, "ReduceMax", lengths)
        places = arange_of(op, 0, op.static(longest) if op.is_static(longest) else longest, 1, torch.int64)
        first = op.Sub(running_sum(op, lengths, 0), lengths)
        last = op.Sub(reduced(op, "ReduceSum", lengths), 1)
        where = extreme(op, "Min", op.Add(unsqueezed(op, first, [1]), places), extreme(op, "Max", last, op.constant(0)))
        targets = op.Gather(op.Concat(targets, op.constant([blank], torch.int64), axis=0), where)
    nothing = op.constant(blank, torch.int64)
    known = op.Where(op.Less(places, size), targets, nothing)
    front = op.Mul(size, 0)
    end = op.Add(front, nothing)
    pairs = op.Concat(unsqueezed(op, op.Add(op.Mul(known, 0), nothing), [2]), unsqueezed(op, known, [2]), axis=2)
    extended = op.Concat(_joined(op, pairs), end, axis=1)
    two_before = op.Slice(op.Concat(end, end, extended, axis=1), [0], [-2], [1])
    skips = op.Not(op.Or(op.Equal(extended, nothing), op.Equal(extended, two_before)))
    return _Labels(extended, skips, size)


def _joined(op: Builder, pairs: Tensor) -> Tensor:
    """[batch, n, 2] as [batch, 2 * n], of which n may be 0."""
    size = size_at(op, pairs, 1)
    width = op.constant([2 * size], torch.int64) if isinstance(size, int) else op.Reshape(op.Mul(size, 2), [1])
    batch = op.Reshape(op.constant(size_at(op, pairs, 0), torch.int64), [1])
    return op.Reshape(pairs, op.Concat(batch, width, axis=0), allowzero=1 if op.opset >= 14 else None)  # type: ignore[no-any-return]


def _losses(op: Builder, x: Tensor, inside: Tensor, labels: _Labels) -> Tensor:
    """[batch], from log-probabilities [time, batch, classes] and bool[time, batch], whether a step counts."""
    zero, never = op.constant(0, x.dtype), op.constant(_NEVER, x.dtype)
    beginning = op.cast(op.Mul(labels.lengths, 0), x.dtype)
    gap = op.Add(beginning, never)

    def shifted(alpha: Tensor, by: int) -> Tensor:
        return op.Slice(op.Concat(*[gap] * by, alpha, axis=1), [0], [-by], [1])  # type: ignore[no-any-return]

    def step(alpha: Tensor, now: Tensor, counts: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        ways = [alpha, shifted(alpha, 1), op.Where(labels.skips, shifted(alpha, 2), never)]
        after = op.Add(_log_sum(op, ways), op.GatherElements(now, labels.extended, axis=1))
        return [op.Where(unsqueezed(op, counts, [1]), after, alpha)], []

    others = op.Add(op.cast(op.Mul(op.Slice(labels.extended, [1], [2**63 - 1], [1]), 0), x.dtype), never)
    alpha = op.scan(step, [op.Concat(beginning, others, axis=1)], [x, inside])[0]
    end = op.Mul(labels.lengths, 2)
    before = extreme(op, "Max", op.Sub(end, 1), op.constant(0))
    last, blank_last = op.GatherElements(alpha, before, axis=1), op.GatherElements(alpha, end, axis=1)
    ways = [blank_last, op.Where(op.Equal(end, 0), never, last)]
    return op.Sub(zero, squeezed(op, _log_sum(op, ways), [1]))  # type: ignore[no-any-return]


def _log_sum(op: Builder, terms: list[Tensor]) -> Tensor:
    """log(exp(a) + exp(b) + ...), of nothing but impossible ones too."""
    largest = op.Max(*terms)
    base = op.Where(op.Equal(largest, _NEVER), op.constant(0, largest.dtype), largest)
    total = op.Exp(op.Sub(terms[0], base))
    for term in terms[1:]:
        total = op.Add(total, op.Exp(op.Sub(term, base)))
    return op.Add(op.Log(total), base)  # type: ignore[no-any-return]
