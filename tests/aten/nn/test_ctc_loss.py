"""nn/classification_losses.py: padded and concatenated targets, sequences of any length."""

from __future__ import annotations

import torch
from torch.nn import functional

from onnxexp.testing import Case, cases

torch.manual_seed(0)

STEPS, BATCH, CLASSES, LONGEST = 9, 4, 5, 3
X = torch.randn(STEPS, BATCH, CLASSES).log_softmax(-1)
TARGETS = torch.tensor([[1, 2, 3], [2, 2, -1], [4, -1, -1], [3, 3, 3]])
LENGTHS, SIZES = torch.tensor([9, 7, 8, 4]), torch.tensor([3, 2, 1, 3])
OPSETS = (11, 13, 20)


def loss(x, targets, steps, sizes, **options):
    return functional.ctc_loss(x, targets, steps, sizes, **options)


@cases(
    *(
        Case(lambda *args, how=how: loss(*args, reduction=how), X, TARGETS, LENGTHS, SIZES, opsets=OPSETS, name=how)
        for how in ("none", "mean", "sum")
    ),
    Case(loss, X, TARGETS, LENGTHS, SIZES, dynamic={0: [1], 1: [0], 2: [0], 3: [0]}, opsets=(11, 20), name="any_batch"),
    Case(loss, X, TARGETS, LENGTHS, SIZES, dynamic={0: [0]}, opsets=(11, 20), name="any_time"),
    Case(lambda x, y: loss(x, y, (9, 7, 8, 4), (3, 2, 1, 3)), X, TARGETS, opsets=OPSETS, name="lengths_known"),
    Case(loss, X, torch.tensor([1, 2, 3, 2, 2, 4, 3, 3, 3]), LENGTHS, SIZES, opsets=OPSETS, name="joined"),
    Case(lambda x, y: loss(x, y, (9, 7, 8, 4), (3, 2, 1, 3)), X, torch.arange(9) % 4 + 1, opsets=OPSETS, name="joined_known"),
    Case(
        lambda *args: loss(*args, reduction="none"), X, TARGETS, LENGTHS, torch.tensor([3, 0, 1, 3]), opsets=OPSETS, name="empty"
    ),
    Case(loss, X, TARGETS.clamp(min=0) % 3, LENGTHS, SIZES, opsets=OPSETS, name="labels_that_are_blanks"),
    Case(lambda *args: loss(*args, blank=4), X, TARGETS % 4, LENGTHS, SIZES, opsets=OPSETS, name="blank"),
    Case(
        lambda *args: loss(*args, reduction="none"),
        X,
        TARGETS,
        torch.tensor([1, 9, 0, 2]),
        SIZES,
        opsets=OPSETS,
        name="too_short",
    ),
    Case(
        lambda *args: loss(*args, zero_infinity=True),
        X,
        TARGETS,
        torch.tensor([1, 9, 3, 2]),
        SIZES,
        opsets=OPSETS,
        name="no_infinity",
    ),
    Case(loss, X[:, 0], TARGETS[0], LENGTHS[0], SIZES[0], opsets=OPSETS, name="alone"),
    Case(loss, X.double(), TARGETS, LENGTHS, SIZES, opsets=OPSETS, name="float64"),
)
def test_ctc_loss(check):
    check()
