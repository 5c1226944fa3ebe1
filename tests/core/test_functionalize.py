"""Functionalized graphs against eager, over the ways that models write to memory."""

from __future__ import annotations

import copy
import itertools
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._errors import CaptureError
from onnxexp._functionalize import functionalize
from onnxexp._functionalize.mutation import MutationInfo
from onnxexp._neutral_graph import Graph, Node, SourceLocation, TensorType, Value
from tests.core.interpreter import capture, check_types, run
from tests.core.views import CASES
from tests.core.writes import Fn, x34


class Lambda(nn.Module):
    def __init__(self, function: Fn) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def check(model: nn.Module, *runs: tuple[Any, ...], dynamic: Any = None) -> tuple[Graph, list[str]]:
    """Capture with the first inputs, functionalize, compare with eager on all."""
    model.eval()
    graph = capture(copy.deepcopy(model), copy.deepcopy(runs[0]), dynamic)
    written = functionalize(graph)
    assert [node for node in graph.walk() if MutationInfo.of(node.op).written] == []
    for inputs in runs:
        expected = pytree.tree_leaves(copy.deepcopy(model)(*copy.deepcopy(inputs)))
        given = copy.deepcopy(inputs)
        torch.testing.assert_close(run(graph, given), expected, rtol=0, atol=0)
        torch.testing.assert_close(given, inputs, rtol=0, atol=0)
        check_types(graph, given)
    return graph, written


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager(name: str) -> None:
    function, inputs = CASES[name]
    check(Lambda(function), inputs)


BATCH = torch.export.Dim.DYNAMIC
DYNAMIC: dict[str, Fn] = {
    "slice": CASES["augmented_slice"][0],
    "flat": CASES["flat_tail"][0],
    "reshape": CASES["reshape_copies"][0],
    "transposed": CASES["transposed"][0],
    "fill": CASES["fill"][0],
    "mask": CASES["mask_set"][0],
    "compare": CASES["compare_in_place"][0],
    "copy": lambda x: torch.zeros(x.shape[0], 4).copy_(x[:1]) + torch.zeros_like(x).copy_(x),
    "first": lambda x: ((z := x.t()[1:] + 0).as_strided((1,), (1,)).fill_(3), z, (x * 1).t()[:, 1:].as_strided((1, 1), (5, 7))),
    "windows of one": lambda x: ((z := x * 1).unfold(0, 1, 2).mul_(3), z.unfold(1, 1, 1)[:, 0].add_(1), z),
    "overlapping rows": lambda x: ((z := x * 1).as_strided((2, 2), (1, 1)).fill_(1), z),
    "columns": lambda x: (x[:, 1:] * 2).flatten()[:3].zero_(),
    "rows": lambda x: (x * 1).view(-1, 2, 2)[1:].mul_(2).flatten(),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_unknown_sizes(name: str) -> None:
    other = torch.cat([x34(), x34() + 50])
    check(Lambda(DYNAMIC[name]), (x34(),), (other,), dynamic=(({0: BATCH},),))


def turned(x):
    y = torch.stack([torch.rot90(x, 1, (0, 1)), torch.rot90(x, 1, (0, 1)) + 1], -1) * 2
    y.flatten()[0] = -2.0
    a, _ = x.chunk(2, -1)
    b = torch.dstack([a[0], a[0]]) + 0
    b.flatten()[1:] = 0
    return y, b


def test_layouts_of_known_sizes() -> None:
    """Return whether flatten() is a view follows from the strides that torch computes."""
    check(Lambda(turned), (x34(),))


def both_dynamic(x):
    z = x * 1
    z.view(-1)[1:].add_(1)
    z.flatten()[:2].zero_()
    a, b = z.chunk(2, dim=0)
    b += 1
    a.t().neg_()
    z[x.shape[0] // 2 :, : x.shape[1] - 1].mul_(3)
    return z, a


def test_two_unknown_sizes() -> None:
    check(Lambda(both_dynamic), (torch.ones(4, 6),), (torch.ones(8, 3),), dynamic=(({0: BATCH, 1: BATCH},),))


def test_unknown_number() -> None:
    def function(x, n):
        z = x * 1
        z[n:] += 1
        z.narrow(0, n, 2).mul_(2)
        return z

    check(Lambda(function), (x34(), 1), (torch.ones(9, 4), 5), dynamic=(({0: BATCH}, BATCH),))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("unused", torch.zeros(3))

    def forward(self, x: Tensor, y: Tensor) -> Any:
        y.mul_(2)
        self.seen[1:] += 1
        return x + self.seen, y, self.seen


def test_written_inputs_and_buffers_are_named() -> None:
    _, written = check(Counting(), (torch.ones(3), torch.ones(3)))
    assert written == ["y", "seen"]


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))
        self.register_buffer("same", self.table)
        self.register_buffer("row", self.table[0])

    def forward(self, x: Tensor, row: bool) -> Any:
        self.table.add_(x)
        return self.same + (self.row if row else 0)


def test_parameters_that_share_memory() -> None:
    check(Shared(), (torch.ones(3), False))
    with pytest.raises(CaptureError, match="whether the two share memory is not certain"):
        check(Shared(), (torch.ones(3), True))


UNSEEN: dict[str, tuple[Fn, tuple[Any, ...], list[str]]] = {
    "chain": (lambda x: (x + 1).relu_().mul_(2).view(-1), (x34(),), ["add", "relu", "mul", "view"]),
    "defaults": (lambda x: torch.sin(x).add_(1), (x34(),), ["sin", "add"]),
    "read as well": (lambda x: (y := x + 1, y * 2, y.relu_())[1:], (x34(),), ["add", "mul", "relu"]),
    "read later": (lambda x: (y := x + 1, y.relu_(), y * 2)[2], (x34(),), ["add", "relu", "mul"]),
    "twice": (lambda x: (y := x + 1).mul_(y), (x34(),), ["add", "mul"]),
    "a view": (lambda x: (x + 1).view(-1).relu_(), (x34(),), ["add", "view", "relu"]),
    "seen in a view": (lambda x: (y := x + 1, v := y.view(-1), y.relu_(), v)[3], (x34(),), ["add", "relu", "view"]),
    "another dtype": (lambda x: (x + 1).add_(x.double()), (x34(),), ["add", "to", "add", "to"]),
    "two dtypes": (
        lambda x: ((x + 1).add_(x.double()), x.double().add_(x)),
        (x34(),),
        ["add", "to", "add", "to", "to", "add"],
    ),
    "an outer product": (lambda x: (x + 1).mul_(x[:1]), (x34(),), ["add", "slice", "mul"]),
    "nothing of what was": (lambda x: (x + 1).fill_(3), (x34(),), ["add", "full"]),
    "a dropout": (lambda x: torch.dropout_(x + 1, 0.0, False).relu_(), (x34(),), ["add", "dropout", "relu"]),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_writes_that_nobody_sees_and_such_that_somebody_does(name: str) -> None:
    function, inputs, operators = UNSEEN[name]
    graph, _ = check(Lambda(function), inputs)
    assert [node.op.removeprefix("aten::").partition(".")[0] for node in graph.nodes] == operators


def test_a_graph_without_writes_is_left_alone() -> None:
    graph = capture(Lambda(lambda x: (x + 1).view(-1)[2:]), (x34(),))
    before = list(graph.nodes)
    assert functionalize(graph) == []
    assert graph.nodes == before


def test_a_write_that_ends_in_a_copy_to_itself_scatters_once() -> None:
    graph, _ = check(Lambda(CASES["augmented_slice"][0]), (x34(),))
    assert sum("scatter" in node.op for node in graph.nodes) == 1


def test_relus_add_nothing() -> None:
    layers = [module for _ in range(3) for module in (nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True))]
    graph, _ = check(nn.Sequential(*layers), (torch.randn(1, 3, 2, 2),))
    assert [node.op for node in graph.nodes] == ["aten::conv2d", "aten::relu"] * 3


def test_where_stays() -> None:
    graph = capture(Lambda(CASES["set_number"][0]), (x34(),))
    lines = {node.where.line for node in graph.nodes if MutationInfo.of(node.op).written}
    functionalize(graph)
    assert {node.where.line for node in graph.nodes if "scatter" in node.op} == lines
    assert all(node.where.line for node in graph.nodes)


REFUSED: dict[str, tuple[Fn, str]] = {
    "overlapping rows": (
        lambda x: ((z := (x * 1).as_strided((2, 2), (1, 1)))[0, 1].mul_(2), z),
        r"aten::mul_.Tensor writes through aten::as_strided, which cannot be undone at File .*"
        r"to fix this, write to the tensor itself",
    ),
    "maybe a view": (lambda x: ((z := torch.linalg.inv(x[:, 1:])).reshape(-1).add_(1), z), r"is read after aten::add_.Tensor"),
    "as_strided of any layout": (
        lambda x: (x.t() * 1).as_strided((2,), (1,)),
        r"the layout of .* aten::as_strided .* to fix this, call clone",
    ),
    "as_strided_scatter": (
        lambda x: torch.as_strided_scatter(x.t(), x[0], (4,), (1,)),
        r"the layout of .* to fix this, call clone",
    ),
    "set_": (
        lambda x: (x * 1).set_(x),
        r"aten::set_.* writes to its arguments.*; to fix this, use the other tensor under its own name",
    ),
    "more elements": (
        lambda x: (x * 1).resize_(4, 4),
        r"aten::resize_ .* from 12 to 16 elements: the last ones are undefined .* to fix this, take .* flatten",
    ),
    "columns": (
        lambda x: (x.t() * 1).resize_(2, 2),
        r"aten::resize_ .* whose order in memory is not certain .*; to fix this, take",
    ),
    "another memory format": (
        lambda x: (x * 1).resize_(1, 2, 2, 2, memory_format=torch.channels_last),
        r"aten::resize_ .* to another memory format .*; to fix this",
    ),
    "as_strided after resize_": (
        lambda x: (x * 1).resize_(3, 2)[1].as_strided((2,), (1,)),
        r"the layout of .* aten::as_strided .* to fix this, call clone",
    ),
    "unfold": (lambda x: ((z := x * 1).unfold(0, 2, 1).fill_(1), z), r"aten::unfold, which cannot be undone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_it_cannot_follow(name: str) -> None:
    function, message = REFUSED[name]
    graph = capture(Lambda(function), (x34(),))
    with pytest.raises(CaptureError, match=message):
        functionalize(graph)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_strided_view_of_a_dynamic_tensor(capture: str) -> None:
    """Its memory is that of the contiguous tensor behind `flatten`, whose sizes are not known."""

    class Strided(torch.nn.Module):
        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            z = x.clone(memory_format=torch.contiguous_format)
            pairs = z.flatten().as_strided((x.numel() // 2, 2), (self.step, 1))
            pairs.mul_(2)
            return z, pairs

    program = onnxexp.export(Strided(2), (x34(),), dynamic_shapes={"x": {0: "n"}}, capture=capture)
    program.verify((torch.randn(7, 4),))
    with pytest.raises(CaptureError, match="aten::mul_.Tensor writes through aten::as_strided, which cannot be undone"):
        onnxexp.export(Strided(1), (x34(),), dynamic_shapes={"x": {0: "n"}}, capture=capture)


def test_custom_operators() -> None:
    with torch.library._scoped_library("onnxexp_functionalize", "FRAGMENT") as library:
        library.define("twice_(Tensor(a!) x) -> Tensor(a!)")
        library.define("twice(Tensor x) -> Tensor")
        library.define("lonely(Tensor(a!) x, float y) -> ()")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        x, y, z = (Value(name, TensorType(torch.float32, (3,))) for name in "xyz")
        graph = Graph([x], [x], [Node("onnxexp_functionalize::twice_", [x], [y]), Node("aten::neg_", [y], [z])])
        functionalize(graph)
        assert [node.op for node in graph.nodes] == ["onnxexp_functionalize::twice", "aten::neg"]
        torch.testing.assert_close(run(graph, [torch.ones(3)]), [torch.full((3,), -2.0)])

        graph = Graph(
            [x], [x], [Node("onnxexp_functionalize::lonely", [x, 1.0], [], where=SourceLocation(file="model.py", line=7))]
        )
        with pytest.raises(
            CaptureError,
            match=r'lonely writes .* at File "model.py", line 7; to fix this, define an operator .*::lonely_functional',
        ):
            functionalize(graph)


def test_time_is_linear() -> None:
    def seconds(count: int) -> float:
        values = [Value(f"v{index}", TensorType(torch.float32, (4, 4))) for index in range(count + 1)]
        graph = Graph(values[:1], [values[-1]])
        for one, other in itertools.pairwise(values):
            graph.nodes += [Node("aten::relu_", [one], [other])]
        start = time.perf_counter()
        functionalize(graph)
        return time.perf_counter() - start

    assert min(seconds(4000) for _ in range(3)) < 2 * 8 * min(seconds(500) for _ in range(3))
