"""Recurrent layers in all forms, with dynamic batch, dynamic time, and both.

The tests export and trace each layer. A second export gives the same bytes.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxexp

from .case import Inputs, Sizes, floats, seeded
from .harness import assert_agrees

ENTRY, HIDDEN = 6, 5
SIZES = {"batch": 3, "time": 4}
UNSEEN = ({"batch": 2, "time": 9}, {"batch": 1, "time": 6}, {"batch": 5, "time": 1})
KINDS: dict[str, type[nn.RNNBase]] = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
CAPTURES = ("export", "trace")


def forms() -> list[Any]:
    """List the forms of the test; the quick tier has one kind of layout and layers."""
    found = []
    for kind, layers, both_ways, batch_first, dynamic, capture in product(
        KINDS, (1, 2), (False, True), (False, True), (("batch",), ("time",), ("batch", "time")), CAPTURES
    ):
        words = (kind, str(layers), "bidirectional" * both_ways, "batch_first" * batch_first, *dynamic, capture)
        marks = [] if both_ways == (layers == 2) and batch_first != both_ways else [pytest.mark.full]
        form = (kind, layers, both_ways, batch_first, dynamic, capture)
        found.append(pytest.param(*form, id="-".join(filter(None, words)), marks=marks))
    return found


@pytest.mark.parametrize(("kind", "layers", "both_ways", "batch_first", "dynamic", "capture"), forms())
def test_recurrent(kind: str, layers: int, both_ways: bool, batch_first: bool, dynamic: tuple[str, ...], capture: str) -> None:
    model = seeded(lambda: KINDS[kind](ENTRY, HIDDEN, layers, bidirectional=both_ways, batch_first=batch_first))()
    axes = ("batch", "time") if batch_first else ("time", "batch")

    def inputs(sizes: Sizes) -> Inputs:
        return (floats(*(sizes[axis] if axis in dynamic else SIZES[axis] for axis in axes), ENTRY),), {}

    shapes = {"input": {index: axis for index, axis in enumerate(axes) if axis in dynamic}}
    first, second = (onnxexp.export(model, *inputs(SIZES)[:1], dynamic_shapes=shapes, capture=capture) for _ in range(2))
    assert first.model_proto.SerializeToString() == second.model_proto.SerializeToString()
    onnx.checker.check_model(first.model_proto, full_check=True)
    assert_agrees(first, model, inputs, (SIZES, *UNSEEN), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_state_given(kind: str, capture: str) -> None:
    """The caller passes a state, at the unseen sizes too."""
    model = seeded(lambda: KINDS[kind](ENTRY, HIDDEN, 2, bidirectional=True, batch_first=True))()

    def inputs(sizes: Sizes) -> Inputs:
        hidden, cell = (floats(4, sizes["batch"], HIDDEN, seed=seed) for seed in (5, 6))
        return (floats(sizes["batch"], sizes["time"], ENTRY), (hidden, cell) if kind == "LSTM" else hidden), {}

    state = {1: "batch"}
    shapes = {"input": {0: "batch", 1: "time"}, "hx": (state, state) if kind == "LSTM" else state}
    program = onnxexp.export(model, inputs(SIZES)[0], dynamic_shapes=shapes, capture=capture)
    assert_agrees(program, model, inputs, (SIZES, *UNSEEN), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("opset", [9, 13, 14, 22])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capture", CAPTURES)
def test_opsets(kind: str, opset: int, capture: str) -> None:
    """The opsets at which the ONNX operators changed."""
    model = seeded(lambda: KINDS[kind](ENTRY, HIDDEN, 2, bidirectional=True))()
    shapes = {"input": {0: "time", 1: "batch"}}

    def inputs(sizes: Sizes) -> Inputs:
        return (torch.tanh(floats(sizes["time"], sizes["batch"], ENTRY)),), {}

    program = onnxexp.export(model, inputs(SIZES)[0], dynamic_shapes=shapes, opset_version=opset, capture=capture)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert_agrees(program, model, inputs, (SIZES, *UNSEEN), atol=1e-5, rtol=1e-4)
