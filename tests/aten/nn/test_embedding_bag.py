"""nn/embedding_bag.py: equal, different and empty bags, padding, weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

OPSETS = (9, 13, 22)
WEIGHT = torch.randn(20, 4)
EQUAL = torch.tensor([[1, 2, 7], [2, 2, 2], [19, 0, 17]])
MIXED, OFFSETS = torch.tensor([1, 2, 3, 4, 2, 17, 17, 19, 0]), torch.tensor([0, 4, 4, 7])


def bags(**options: Any) -> Callable[..., torch.Tensor]:
    def embedding_bag(indices: torch.Tensor, weight: torch.Tensor, *offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, weight, *offsets, **options)

    embedding_bag.__name__ = "-".join(map(str, options.values()))
    return embedding_bag


def weighted(indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(indices, WEIGHT, mode="sum", per_sample_weights=weights)


def weighted_mixed(indices: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(indices, WEIGHT, offsets, mode="sum", per_sample_weights=weights, padding_idx=2)


MODES = ("sum", "mean", "max")


@cases(
    *(
        Case(bags(mode=mode), EQUAL, WEIGHT, dynamic={0: [0]}, opsets=OPSETS, emits={"Gather", reducer})
        for mode, reducer in zip(MODES, ("ReduceSum", "ReduceMean", "ReduceMax"), strict=True)
    ),
    *(Case(bags(mode=mode, padding_idx=2), EQUAL, WEIGHT, dynamic={0: [0]}, opsets=OPSETS) for mode in MODES),
    *(Case(bags(mode=mode), MIXED, WEIGHT, OFFSETS, dynamic={0: [0]}, opsets=OPSETS) for mode in MODES),
    *(Case(bags(mode=mode, padding_idx=-3), MIXED, WEIGHT, OFFSETS, opsets=OPSETS) for mode in MODES),
    *(
        Case(
            bags(mode=mode, include_last_offset=True),
            MIXED,
            WEIGHT,
            torch.tensor([0, 4, 4, 9]),
            opsets=OPSETS,
            name=f"last-{mode}",
        )
        for mode in MODES
    ),
    Case(weighted, EQUAL, torch.randn(3, 3), dynamic={0: [0], 1: [0]}, opsets=OPSETS),
    Case(weighted_mixed, MIXED, OFFSETS, torch.randn(9), dynamic={0: [0], 2: [0]}, opsets=OPSETS),
    Case(torch.nn.EmbeddingBag(20, 4, mode="mean"), EQUAL, dynamic={0: [0]}, opsets=OPSETS, name="module"),
    Case(torch.nn.EmbeddingBag(20, 4, max_norm=None, mode="max"), MIXED, OFFSETS, opsets=OPSETS, name="module-offsets"),
)
def test_embedding_bag(check):
    check()


def spread(indices: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Sum over bags; the last bag has two thirds of the indices."""
    return F.embedding_bag(indices.flatten(), weight, torch.arange(0, indices.shape[0], 3), mode="sum")


@cases(Case(spread, EQUAL.repeat(2, 1), WEIGHT, dynamic={0: [0]}, opsets=OPSETS))
def test_bags_that_only_look_equal(check):
    check()


def test_skipped_pass_gives_the_general_form() -> None:
    program = onnxexp.export(
        bags(mode="mean"), (EQUAL, WEIGHT), dynamic_axes={"indices": {0: "bags"}}, skip_passes=["find-equal-bags"]
    )
    assert "ReduceMean" not in [node.op_type for node in program.model.graph]
    assert program.verify().ok


def renormed(indices: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    kept = weight.clone()
    return F.embedding(indices, kept, max_norm=1.0), F.embedding_bag(indices, kept, max_norm=0.5, norm_type=1.0, mode="sum")


@cases(Case(renormed, EQUAL, WEIGHT, dynamic={0: [0]}, opsets=(11, 22)))
def test_renorm(check):
    check()
