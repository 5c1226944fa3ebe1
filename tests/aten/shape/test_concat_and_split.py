"""shape/concat_and_split.py: concatenation and stacking."""

from __future__ import annotations

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

X, Y, V, W = torch.randn(2, 3), torch.randn(2, 4), torch.randn(3), torch.randn(3)


@cases(
    Case(lambda x, y: torch.cat([x, y], 1), X, Y, dynamic={0: [0], 1: [0]}, emits={"Concat"}, name="cat"),
    Case(lambda x, y: torch.cat([x, y], -1), X, torch.randint(9, (2, 2)), dynamic={0: [0], 1: [0]}, name="cat_mixed"),
    Case(lambda x: torch.cat([torch.zeros(0), x]), X, emits={"Identity"}, name="cat_legacy_empty"),
    Case(lambda x: torch.cat([x]), X, dynamic={0: [0]}, emits={"Identity"}, name="cat_one"),
    Case(lambda x, y: torch.stack([x, y], -1), V, W, dynamic={0: [0], 1: [0]}, name="stack"),
    Case(lambda x, y: torch.hstack([x, y]), V, W, dynamic={0: [0], 1: [0]}, name="hstack"),
    Case(lambda x, y: torch.vstack([x, y]), V, X, name="vstack"),
    Case(lambda x, y: torch.dstack([x, y]), V, W, name="dstack"),
    Case(lambda x, y: torch.column_stack([x, y]), V, torch.randn(3, 2), name="column_stack"),
    Case(lambda x, y: torch.block_diag(x, y), X, Y, name="block_diag"),
    Case(lambda x, y: torch.block_diag(x, y, x), X, Y, dynamic={0: [0]}, emits={"Pad", "Concat"}, name="block_diag_of_rows"),
    Case(lambda x, y: torch.block_diag(y[0], x, x[0, 0], torch.zeros(0), x[:, :0]), X, Y > 0, name="block_diag_of_others"),
    Case(lambda x, y: torch.cartesian_prod(x, y), V, torch.randn(2), dynamic={0: [0], 1: [0]}, name="cartesian_prod"),
    *(
        Case(
            lambda x, y, i=i: torch.meshgrid(x, y, indexing=i), V, torch.randn(2), dynamic={0: [0], 1: [0]}, name=f"meshgrid_{i}"
        )
        for i in ("ij", "xy")
    ),
)
def test_join(check):
    check()


def _pad(side: str, value: float, batch_first: bool = False):
    return lambda *each: torch.nn.utils.rnn.pad_sequence(each, batch_first, value, side)


LONG, MIDDLE, SHORT = torch.randn(5, 3), torch.randn(4, 3), torch.randn(2, 3)
LENGTHS = {0: [0], 1: [0], 2: [0]}


@cases(
    Case(_pad("right", 0.0), LONG, MIDDLE, SHORT, name="pad_sequence_static"),
    Case(_pad("right", 0.0), LONG, MIDDLE, SHORT, dynamic=LENGTHS, opsets=[11, 20], name="pad_sequence"),
    Case(_pad("left", -1.5, True), LONG, MIDDLE, SHORT, dynamic=LENGTHS, opsets=[11, 20], name="pad_sequence_left"),
    Case(_pad("right", -1.5), LONG, MIDDLE.int(), SHORT.double(), name="pad_sequence_of_other_dtypes"),
    Case(
        _pad("right", 2.7), LONG[:, 0].long(), SHORT[:, 0].long(), dynamic={0: [0], 1: [0]}, opsets=[11, 20], name="pad_integers"
    ),
)
def test_pad_sequence(check):
    check()


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_the_longest_sequence_need_not_be_the_longest_of_the_example(capture):
    class Padded(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.utils.rnn.pad_sequence([x, y], batch_first=True)

    axes = {"x": {0: "a"}, "y": {0: "b"}}
    program = onnxexp.export(Padded(), (LONG, SHORT), dynamic_shapes=axes, capture=capture)
    for lengths in ((5, 2), (2, 6), (4, 4), (0, 3), (3, 0), (1, 7)):
        x, y = (torch.randn(length, 3) for length in lengths)
        torch.testing.assert_close(program(x, y), Padded()(x, y))


def test_combinations() -> None:
    """The export traces, since torch.export takes their number for data-dependent."""
    x = torch.randn(4)
    for count in (0, 1, 3):
        for again in (False, True):
            model = onnxexp.export(lambda x: torch.combinations(x, count, again), (x,), capture="trace")  # noqa: B023
            torch.testing.assert_close(model(x), torch.combinations(x, count, again))
