"""Our own rules for shapes say what onnx's inference says, or leave it to onnx: at each opset, for right calls and wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from onnxexp import Builder, LoweringError, shapes
from onnxexp.graph import TensorType

LAST = 2**63 - 1
SHAPES: list[tuple[int | str, ...]] = [(), (1,), (3,), ("n",), (2, 3), (1, 3), ("n", 3), ("m", 3), (2, 1), (4, 2, 3), (0, 3)]
PAIRS = list(itertools.product(SHAPES, SHAPES))
AXES: list[list[int] | None] = [None, [], [0], [-1], [1, 0], [0, 0], [0, -2], [7], [-7]]
TARGETS = [[6], [0], [0, -1], [0, 0, -1], [0, 0, 0, 0], [], [2, -1], [-1], [3, 0], [-1, -1], [-2, 3], [1, 2, 3], [5, -1], [0, -1]]
CUTS = [([0], [1]), ([1], [LAST]), ([-2], [-1]), ([2], [1]), ([-9], [9]), ([0, 1], [1, 2]), ([LAST], [-LAST - 1])]
PADS = [[], [0, 1], [1, 1], [-1, 0], [-5, 1], [0, 1, 2, 0], [0, 0, -1, 1], [1] * 6]
BOOLEAN = {"And", "Not"}

CASES: dict[str, tuple[list[Sequence[Any]], list[dict[str, Any]]]] = {
    **dict.fromkeys(("Neg", "Floor", "Sqrt", "Not", "IsNaN"), ([[shape] for shape in SHAPES], [{}])),
    **dict.fromkeys(("Add", "And", "GatherElements", "Less", "MatMul", "Max", "Pow"), (PAIRS, [{}])),
    **dict.fromkeys(("Concat", "Gather"), (PAIRS, [{"axis": axis} for axis in (0, -1, 1, 5, -5)])),
    "Where": ([((2, 3), *pair) for pair in PAIRS], [{}]),
    **dict.fromkeys(
        ("ReduceSum", "ReduceMax", "ReduceL2"),
        ([[shape] for shape in SHAPES], [{"axes": axes, "keepdims": keep} for axes in AXES for keep in (0, 1)]),
    ),
    "ArgMax": ([[shape] for shape in SHAPES], [{"axis": axis, "keepdims": keep} for axis in (0, -1, 1, 5) for keep in (0, 1)]),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), ([[shape] for shape in SHAPES], [{"axes": axes} for axes in AXES])),
    **dict.fromkeys(("LogSoftmax", "Softmax"), ([[shape] for shape in SHAPES], [{"axis": axis} for axis in (0, 1, -1, 2, -3)])),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), ([[]], [{"shape": [2, 3]}, {"shape": []}, {"shape": [0], "dtype": 11}])),
    "RandomUniformLike": ([[shape] for shape in SHAPES], [{}, {"dtype": 11}]),
    "Pad": ([[shape] for shape in SHAPES], [{"pads": pads} for pads in PADS]),
    "Shape": (
        [[shape] for shape in SHAPES],
        [{}, *({"start": start, "end": end} for start in (0, 1, -1, 5) for end in (2, -1, 0))],
    ),
    "TopK": ([[shape] for shape in SHAPES], [{"k": [k], "axis": axis} for k in (1, 2, 0, 9, -1) for axis in (0, 1, -1, 5)]),
    "Transpose": ([[shape] for shape in SHAPES], [{"perm": perm} for perm in (*AXES, [1, 2, 0], [0, 2])]),
    "Reshape": ([[shape] for shape in SHAPES], [{"shape": target, "allowzero": zero} for target in TARGETS for zero in (0, 1)]),
    "Expand": ([[shape] for shape in SHAPES], [{"shape": target} for target in TARGETS]),
    "Slice": (
        [[shape] for shape in SHAPES],
        [
            {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
            for starts, ends in CUTS
            for axes in (None, [0, 1][: len(starts)], [-1, 0][: len(starts)], [1, 1][: len(starts)], [5, 0][: len(starts)])
            for steps in (None, [2, 1][: len(starts)], [-1, -2][: len(starts)], [0, 1][: len(starts)])
        ],
    ),
}
"""By operator: the shapes of its inputs, and what else it is called with."""
PLAIN: dict[str, dict[str, Any]] = {
    "Slice": {"starts": [0], "ends": [1]},
    "Reshape": {"shape": [3, 2]},
    "Expand": {"shape": [4, 2, 3]},
    "Pad": {"pads": [0, 1, 1, 0]},
    "RandomUniformLike": {"dtype": 1},
    "TopK": {"k": [2]},
    **{name: {"axis": 0} for name in ("Concat", "Gather", "ArgMax", "LogSoftmax", "Softmax")},
    **{name: {"shape": [2, 3]} for name in ("RandomNormal", "RandomUniform")},
    **{name: {"axes": [0]} for name in ("Squeeze", "Unsqueeze")},
}
"""By operator: what else a plain call has."""


def outcome(name: str, opset: int, given: Sequence[Any], named: dict[str, Any]) -> Any:
    """The dtypes and shapes that come out, names that inference makes up as None; or the error's text."""
    op = Builder(opset)
    inputs: list[Any] = []
    for index, shape in enumerate(given):
        dtype = torch.bool if name in BOOLEAN or (name == "Where" and not index) else torch.float32
        dtype = torch.int64 if name in ("Gather", "GatherElements") and index else dtype
        inputs.append(op.input(f"i{index}", TensorType(dtype, shape)))
    try:
        made = op.call("", name, *inputs, **named)
        types = [(each.shape, each.dtype) for each in (made if isinstance(made, tuple) else (made,))]
    except (LoweringError, TypeError) as error:
        return str(error)
    known = [shape and tuple(None if str(size).startswith("unknown") else size for size in shape) for shape, _ in types]
    return list(zip(known, [dtype for _, dtype in types], strict=True))


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 18, 20])
@pytest.mark.parametrize("name", CASES)
def test_a_rule_says_what_onnx_says(name: str, opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list(itertools.product(*CASES[name]))
    ours = [outcome(name, opset, *call) for call in calls]
    monkeypatch.setattr(shapes, "RULES", {})
    for call, found in zip(calls, ours, strict=True):
        assert found == outcome(name, opset, *call), call


@pytest.mark.parametrize("name", CASES)
def test_a_plain_call_needs_no_inference_of_onnx(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxexp.inference._infer_node", lambda op, node: pytest.fail(f"onnx is asked about {node}"))
    named = PLAIN.get(name, {})
    shape = (2, 2) if name == "MatMul" else (1, 2) if name == "Squeeze" else (2, 3)
    assert not isinstance(outcome(name, 20, [shape] * len(CASES[name][0][0]), named), str)


def test_every_rule_is_compared() -> None:
    alike = [shapes._AS_FIRST.split(), shapes._BROADCASTING.split(), shapes._REDUCTIONS.split(), ["ArgMax", "ArgMin"]]
    rest = set(shapes.RULES).difference(*alike)
    assert rest <= CASES.keys() and all(set(group) & CASES.keys() for group in alike)
