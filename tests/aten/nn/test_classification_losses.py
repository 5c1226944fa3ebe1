"""nn/classification_losses.py: cross entropy, likelihoods, margins of classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from onnxexp.testing import Case, cases
from tests.torch_versions import RELEASE

torch.manual_seed(0)
aten = torch.ops.aten
OPSETS = (9, 20)
DYNAMIC = {0: [0], 1: [0]}

X = torch.randn(4, 5)
LABELS = torch.tensor([3, 0, 4, 3])
SOME = torch.tensor([3, -100, 4, 2])
WEIGHT = torch.rand(5) + 0.5
PLANES = torch.randn(2, 5, 3, 4)
PLANE_LABELS = torch.randint(0, 5, (2, 3, 4))
CHANCES = torch.softmax(torch.randn(4, 5), 1)
REDUCTIONS = ("none", "mean", "sum")


def case(fn: Callable[..., Any], *inputs: torch.Tensor, name: str = "", opsets: tuple[int, ...] = OPSETS, **options: Any) -> Case:
    own = {key: options.pop(key) for key in ("dynamic", "rtol", "atol") if key in options}
    described = "_".join([fn.__name__, *(f"{key}_{value}" for key, value in options.items()), *([name] if name else [])])
    return Case(functools.partial(fn, **options), *inputs, opsets=opsets, name=described, **own)


def cross_entropy(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    return F.cross_entropy(x, target, weight, **options)


def nll_loss(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    return F.nll_loss(x, target, weight, **options)


OPTIONS: list[tuple[str, tuple[torch.Tensor, ...], dict[str, Any]]] = [
    ("plain", (X, LABELS), {}),
    ("some ignored", (X, SOME), {}),
    ("a class ignored", (X, LABELS), {"ignore_index": 3}),
    ("all ignored", (X, LABELS * 0 - 100), {}),
    ("out of range ignored", (X, LABELS * 0 + 99), {"ignore_index": 99}),
    ("weight", (X, SOME, WEIGHT), {}),
    ("one", (X[0], LABELS[0]), {}),
    ("one weighted", (X[0], LABELS[0], WEIGHT), {}),
    ("one ignored", (X[0], SOME[1]), {}),
    ("bytes", (X, LABELS.byte()), {}),
    ("planes", (PLANES, PLANE_LABELS), {"ignore_index": 2}),
    ("planes weighted", (PLANES, PLANE_LABELS, WEIGHT), {"ignore_index": 2}),
    ("line", (PLANES[:, :, 0], PLANE_LABELS[:, 0], WEIGHT), {}),
    ("doubles", (X.double(), LABELS), {}),
]


@cases(
    *(
        case(fn, *inputs, name=name, reduction=reduction, **options)
        for fn in (cross_entropy, nll_loss)
        for name, inputs, options in OPTIONS
        for reduction in REDUCTIONS
    ),
    case(cross_entropy, X, LABELS, dynamic=DYNAMIC, name="dynamic"),
    case(nll_loss, X, LABELS, WEIGHT, dynamic=DYNAMIC, name="dynamic"),
    case(cross_entropy, PLANES, PLANE_LABELS, dynamic={0: [0, 2, 3], 1: [0, 1, 2]}, name="dynamic planes", opsets=(11, 20)),
)
@pytest.mark.filterwarnings("ignore:torch.export failed")  # it gathers with int64 only, and so does not take bytes as labels
def test_classes(check):
    check()


@cases(
    *(
        case(cross_entropy, *inputs, name=name, reduction=reduction, label_smoothing=0.2)
        for name, inputs in (
            ("plain", (X, LABELS)),
            ("ignored and weighted", (X, SOME, WEIGHT)),
            ("one", (X[0], LABELS[0], WEIGHT)),
            ("planes", (PLANES, PLANE_LABELS, WEIGHT)),
            ("chances", (X, CHANCES)),
            ("weighted chances", (X, CHANCES, WEIGHT)),
        )
        for reduction in REDUCTIONS
    ),
    case(cross_entropy, X, SOME, WEIGHT, dynamic={0: [0], 1: [0]}, label_smoothing=0.1, name="dynamic"),
    *(case(cross_entropy, X, CHANCES, reduction=reduction) for reduction in REDUCTIONS),
    # torch 2.11 and 2.12 take the number of classes to be that of the example
    *[case(cross_entropy, X, CHANCES, WEIGHT, dynamic=DYNAMIC, name="weighted chances") for _ in range(RELEASE > (2, 12))],
    case(cross_entropy, X[0], CHANCES[0], WEIGHT, name="one's chances"),
    case(cross_entropy, PLANES, torch.softmax(PLANES, 1), WEIGHT, name="planes of chances"),
    case(cross_entropy, X, CHANCES.double(), name="chances of another dtype"),
)
def test_smoothing_and_chances(check):
    check()


@cases(
    *(
        case(
            lambda *args, fn=fn, reduction=reduction: fn(*args, reduction, -100), *inputs, name=f"{fn} {reduction} {len(inputs)}"
        )
        for fn, data in (
            (aten.nll_loss, (X, SOME, WEIGHT)),
            (aten.nll_loss_forward, (X, SOME, WEIGHT)),
            (aten.nll_loss2d, (PLANES, PLANE_LABELS, WEIGHT)),
            (aten.nll_loss2d_forward, (PLANES, PLANE_LABELS, WEIGHT)),
        )
        for inputs in (data,)
        for reduction in (0, 1, 2)
    ),
)
def test_by_name(check):
    check()


ENDED = torch.tensor([[1, 3, -1, 0, 0], [0, 1, 2, 3, 4], [-1, 2, 2, 2, 2], [2, -1, -1, -1, -1]])


@cases(
    *(case(F.multi_margin_loss, X, LABELS, reduction=reduction) for reduction in REDUCTIONS),
    case(lambda x, y, w: F.multi_margin_loss(x, y, 2, 0.4, w), X, LABELS, WEIGHT, dynamic=DYNAMIC, name="multi_margin_options"),
    *(case(F.multi_margin_loss, X[0], LABELS[index], reduction="sum", name=f"one {index}") for index in (0, [0])),
    *(case(F.multilabel_margin_loss, X, ENDED, reduction=reduction) for reduction in REDUCTIONS),
    case(F.multi_margin_loss, X[0], LABELS[[0]], reduction="none", name="one"),
    *(case(F.multilabel_margin_loss, X[0], ENDED[0], reduction=reduction, name="one") for reduction in ("mean", "sum")),
    case(F.multilabel_margin_loss, X[0, 0], ENDED[1, 0], name="one score"),
    case(F.multilabel_margin_loss, X, ENDED, dynamic=DYNAMIC, name="dynamic"),
)
def test_margins(check):
    check()
