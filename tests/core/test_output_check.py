"""A symbolic whose results differ in shape, dtype or number is an error at export."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxexp
from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp._lowering.lowering import output_mismatch
from onnxexp._neutral_graph import Dim, TensorType, Value

SYMBOLS = frozenset({"n", "m"})


@pytest.mark.parametrize(
    ("returned", "recorded", "wrong"),
    [
        (3, 3, False),
        (1, 3, True),
        (1, "n", True),
        ("n", 3, True),
        ("n", "n", False),
        ("n", "m", True),
        ("n", "n - 1", False),  # n - 1 and the like may be simplified otherwise
        (1, "(n + 3)//4", False),  # a guard may fix it
        ("n", "dim_0", False),
        ("dim_1", "n", False),
        (1, "dim_0", False),
    ],
)
def test_sizes_that_certainly_differ(returned: Dim, recorded: Dim, wrong: bool) -> None:
    result = Builder(20).input("result", TensorType(torch.float32, (returned, 4)))
    assert bool(output_mismatch(Value("relu", TensorType(torch.float32, (recorded, 4))), result, symbols=SYMBOLS)) == wrong


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin() + 1


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            y = (x * 2).sin()
        else:
            y = x - 1
        return y + 1


class Looping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x.argmax())):
            x = (x * 2).sin()
        return x + 1


class Conditional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: (x * 2).sin(), lambda x: x - 1, (x,)) + 1


WRONG: list[tuple[Callable[..., Any], str]] = [
    (lambda op, self: op.ReduceSum(self), r"returns \[1, 1\] where torch returns .*: another shape"),
    (lambda op, self: op.ReduceSum(self, keepdims=0), r"returns \[\] where torch returns .*: another shape"),
    (lambda op, self: op.Unsqueeze(self, [0]), r"returns \[1, .*\] where torch returns .*: another shape"),
    (lambda op, self: op.Transpose(self, perm=[1, 0]), r"returns \[.*\] where torch returns .*: another shape"),
    (lambda op, self: op.cast(self, torch.float64), r"returns torch\.float64 where torch returns torch\.float32"),
    (lambda op, self: (), r"returned \(\); 1 Tensors were expected"),
    (lambda op, self: (op.Sin(self), self), r"returned \(.*\); 1 Tensors were expected"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("capture", "model"),
    [("export", Plain()), ("trace", Plain()), ("script", Plain()), ("export", Conditional()), ("script", Branching())],
    ids=["export", "trace", "script", "cond", "if"],
)
@pytest.mark.parametrize(("symbolic", "says"), WRONG, ids=["sum", "scalar", "rank", "swapped", "dtype", "none", "two"])
def test_a_wrong_result_is_an_error(
    symbolic: Callable[[Builder, Tensor], Any], says: str, capture: str, model: nn.Module, dynamic: bool
) -> None:
    pytest.importorskip("onnxexp_aten", reason="the other operators are the aten plugin's")
    if capture != "export":
        pytest.importorskip("onnxexp_torchscript", reason="the TorchScript frontend is a plugin")
    table = SymbolicTable("aten", override=True)
    table("sin")(symbolic)
    shapes = {"x": {0: "rows", 1: "columns"}} if dynamic else None
    with pytest.raises(onnxexp.LoweringError) as raised:
        onnxexp.export(model, (torch.ones(2, 3),), plugins=[table, ...], capture=capture, dynamic_shapes=shapes)
    place = rf"the symbolic <lambda> of the plugin 'inline aten' at {re.escape(__file__)}:\d+"
    assert re.search(f"aten::sin: {place} {says}", str(raised.value)), str(raised.value)
