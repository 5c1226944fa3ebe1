"""nn/losses.py and math/functions_of_two.py: losses for numeric targets, and distances."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 20)

X, Y, Z = torch.randn(3, 3, 4)
SIGNS = torch.tensor([1.0, -1.0, 1.0])
UNIT, SHARES, WEIGHT = torch.rand(3, 3, 4)
EDGES = torch.tensor([[0.0, 1.0, 0.5, 0.25], [1.0, 0.0, 0.0, 1.0], [0.5, 1.0, 0.0, 0.0]])
BATCH = {0: [0], 1: [0]}


def case(fn: Callable[..., Any], *inputs: torch.Tensor, name: str = "", opsets: tuple[int, ...] = OPSETS, **options: Any) -> Case:
    """Build a case of a call with keywords; `dynamic`, `rtol`, `atol` are the case's."""
    own = {key: options.pop(key) for key in ("dynamic", "rtol", "atol") if key in options}
    described = "_".join(str(value) for value in options.values())
    return Case(functools.partial(fn, **options), *inputs, opsets=opsets, name=name or f"{fn.__name__}_{described}", **own)


def reductions(fn: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> list[Case]:
    """Build a case for each reduction, one of them with dynamic sizes."""
    dynamic = {place: [0] for place in range(len(inputs))}
    return [
        *(case(fn, *inputs, reduction=reduction, **options) for reduction in ("none", "sum")),
        case(fn, *inputs, reduction="mean", dynamic=dynamic, **options),
    ]


@cases(
    *reductions(F.l1_loss, X, Y),
    *reductions(F.mse_loss, X, Y),
    *reductions(F.smooth_l1_loss, X, Y),
    case(F.smooth_l1_loss, X, Y, beta=0.5),
    case(F.smooth_l1_loss, X, Y, beta=0.0),
    *reductions(F.huber_loss, X, Y, delta=0.7),
    case(F.mse_loss, X[0, 0], Y[0, 0], reduction="mean", name="mse_of_numbers"),
    case(F.mse_loss, X.double(), Y.double(), reduction="mean", name="mse_of_doubles"),
    case(F.mse_loss, X, Y.double(), reduction="mean", name="mse_of_two_dtypes"),
    case(F.l1_loss, X.int(), Y.int(), reduction="sum", name="l1_of_ints"),
    case(F.l1_loss, torch.complex(X, Y), torch.complex(Y, X), reduction="mean", name="l1_of_complex_numbers"),
)
def test_distances(check):
    check()


@cases(
    *(case(F.pairwise_distance, X, Y, p=p) for p in (2.0, 1.0, 3.0, math.inf)),
    case(F.pairwise_distance, X, Y, keepdim=True, dynamic=BATCH),
    case(F.pairwise_distance, X, Y[0], eps=1e-3, name="pairwise_distance_from_one"),
    *reductions(F.triplet_margin_loss, X, Y, Z),
    case(F.triplet_margin_loss, X, Y, Z, swap=True, margin=0.3, p=1.0),
    case(F.triplet_margin_loss, X[0], Y[0], Z[0], reduction="none", name="triplet_of_vectors"),
)
def test_pairs(check):
    check()


@cases(
    case(F.cosine_similarity, X, Y, dynamic=BATCH),
    case(F.cosine_similarity, X, Y, dim=0, eps=2.0),
    case(F.cosine_similarity, X, Y * 0, dim=-1, name="cosine_similarity_of_zero"),
    case(F.cosine_similarity, X, Y[:1], dim=1, name="cosine_similarity_of_all_with_one"),
    case(F.cosine_similarity, X, Y[:, :1], dim=1, name="cosine_similarity_of_other_lengths"),
    case(F.cosine_similarity, X, Y[0], dim=1, name="cosine_similarity_of_other_ranks"),
    case(F.cosine_similarity, X[0], Y[0], dim=0, name="cosine_similarity_of_vectors"),
    *reductions(F.cosine_embedding_loss, X, Y, SIGNS, margin=0.2),
    case(F.cosine_embedding_loss, X[0], Y[0], SIGNS[1], name="cosine_embedding_of_vectors"),
    case(F.cosine_embedding_loss, X, Y, SIGNS.long(), name="cosine_embedding_of_integer_signs"),
    case(F.cosine_embedding_loss, (X * 4).int(), (Y * 4).int(), SIGNS, name="cosine_embedding_of_ints"),
)
def test_cosines(check):
    check()


@cases(
    *reductions(F.margin_ranking_loss, X[:, 0], Y[:, 0], SIGNS, margin=0.5),
    case(F.margin_ranking_loss, X[:, 0], Y[:, 0], SIGNS),
    *reductions(F.hinge_embedding_loss, X[:, 0], SIGNS),
    case(F.hinge_embedding_loss, X[:, 0], torch.tensor([0.0, 1.0, -1.0]), margin=0.3),
    *reductions(F.soft_margin_loss, X[:, 0], SIGNS),
    *reductions(F.binary_cross_entropy, UNIT, SHARES),
    case(F.binary_cross_entropy, EDGES, SHARES, reduction="none", name="binary_cross_entropy_of_certainty"),
    case(lambda x, y, weight: F.binary_cross_entropy(x, y, weight), UNIT, SHARES, WEIGHT, name="binary_cross_entropy_weight"),
    *reductions(F.binary_cross_entropy_with_logits, X * 30, SHARES),
    case(lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w), X, SHARES, WEIGHT, name="logits_weight"),
    case(
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), X, SHARES, WEIGHT[0] * 3, name="logits_pos_weight"
    ),
)
def test_which_of_two(check):
    check()


@cases(
    *reductions(F.kl_div, X, EDGES),
    case(F.kl_div, X, EDGES, reduction="batchmean"),
    *reductions(F.kl_div, X, Y, log_target=True),
    *reductions(F.poisson_nll_loss, X, UNIT * 9),
    case(F.poisson_nll_loss, X, EDGES * 4, full=True),
    case(F.poisson_nll_loss, UNIT, EDGES * 4, full=True, log_input=False, eps=1e-3, reduction="none"),
    case(F.poisson_nll_loss, X, (UNIT * 9).long(), name="poisson_of_counts"),
)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_distributions(check):
    check()


@cases(
    case(torch.xlogy, EDGES, torch.tensor([[0.0, 0.5, 2.0, math.nan]]), name="xlogy"),
    case(torch.xlogy, X.int(), (UNIT * 9).int(), name="xlogy_of_ints"),
    case(lambda x: (torch.xlogy(x, 0.5), torch.xlogy(2, x), torch.xlogy(x, 0)), EDGES, name="xlogy_of_numbers"),
    case(lambda x, y: torch.ops.aten.special_xlogy(x, y), EDGES, UNIT, name="special_xlogy"),
    case(
        lambda x: (torch.ops.aten.special_xlogy(2.0, x), torch.ops.aten.special_xlogy(x, 2.0)),
        EDGES,
        name="special_xlogy_of_numbers",
    ),
    case(torch.special.xlog1py, EDGES, -UNIT, name="xlog1py"),
    case(lambda x: (torch.special.xlog1py(2.0, x), torch.special.xlog1py(x, 0.5)), EDGES, name="xlog1py_of_numbers"),
    case(torch.special.entr, torch.tensor([0.0, 0.5, 2.0, -1.0, math.nan]), name="entr"),
    case(torch.special.entr, X.int(), name="entr_of_ints"),
)
def test_entropies(check):
    check()


@pytest.mark.parametrize("loss", [F.poisson_nll_loss, F.binary_cross_entropy_with_logits, F.kl_div, F.cosine_similarity])
def test_floats_are_not_decomposed(loss: Callable[..., torch.Tensor]) -> None:
    """Losses of floats skip torch's decomposition, which dominates their export."""

    def lowered_by(*inputs: torch.Tensor) -> set[str]:
        return {by for _, by in onnxexp.check(lambda x, y: loss(x, y), inputs, capture="export").lowered}

    assert lowered_by(X, SHARES) == {"aten"}
    assert lowered_by(X, SHARES.double()) == {"decomposed"}


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_branch_that_only_warns_is_no_condition(capture: str) -> None:
    """torch warns where the shapes of a squared error differ, and computes the same."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(F.mse_loss, (X, X[0]), dynamic_shapes=({0: "n"}, {}), capture=capture)
    assert not [each for each in caught if "right only where" in str(each.message)]
    for size in (2, 1, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x, X[0]), F.mse_loss(x, X[0]))
