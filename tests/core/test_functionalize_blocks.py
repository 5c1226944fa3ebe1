"""Writes inside branches and loops, against what TorchScript computes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from onnxexp._errors import CaptureError
from onnxexp._functionalize import functionalize
from onnxexp._functionalize.mutation import MutationInfo
from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Value
from tests.core.interpreter import run
from tests.core.scripted import scripted

HEAD = "def f(a, b, n: int):\n"

FOLLOWED = {
    "a branch writes": """
        if n > 1:
            a.add_(1)
        return a
    """,
    "both branches write": """
        if n > 1:
            a += b
        else:
            a[0] = 3.0
            b.zero_()
        return a, b
    """,
    "a branch writes through a view made outside": """
        row = a[1]
        column = a[:, 0]
        if n > 1:
            row.mul_(3)
        return a, row, column
    """,
    "a view made inside stays inside": """
        if n > 1:
            a[1].mul_(3)
            b = a[1] + b
        return a[1:], b
    """,
    "nested branches": """
        view = a.view([-1])
        if n > 0:
            if n > 2:
                a.t().neg_()
            else:
                view[2:5].fill_(8)
            a += 1
        return a, view
    """,
    "a loop writes": """
        out = torch.zeros([3, 4])
        for i in range(n):
            out[i] = a[i] * i
        return out
    """,
    "a loop carries and writes": """
        for i in range(n):
            a = a * 2
            a += 1
        return a
    """,
    "a loop writes to what it carries": """
        for i in range(n):
            a += b
            b.mul_(2)
        return a, b
    """,
    "a loop reads what the round before wrote": """
        row = a[0]
        for i in range(n):
            b[1] += row.clone()
            row.copy_(b[2] * i)
        return a, b, row
    """,
    "a branch in a loop": """
        total = torch.zeros([4])
        for i in range(n):
            if i == 1:
                a[i] += 1
            total += a[i]
        return total, a
    """,
    "a loop in a branch": """
        if n > 1:
            for i in range(n):
                a[i].neg_()
        return a
    """,
    "loops in loops": """
        for i in range(n):
            for j in range(n):
                a[i] += j
                b[j, 1:].sub_(a[i, 1:])
            a *= 2
        return a, b
    """,
    "while": """
        while bool(a.sum() < 100):
            a += 10
        return a
    """,
    "new memory in a loop": """
        for i in range(n):
            c = a + b
            c[0] = 5.0
            a = c * 2
        return a
    """,
    "written before and after": """
        a.add_(1)
        view = a[1:]
        for i in range(n):
            view.mul_(2)
        a.sub_(1)
        return view, a
    """,
}

REFUSED = {
    "one of two tensors is written": """
        if n > 1:
            c = a
        else:
            c = b
        c.add_(1)
        return a
    """,
    "a loop hands on what it writes": """
        c = a.clone()
        for i in range(n):
            c.add_(b[0])
            b.mul_(2)
            c = b
        return c
    """,
}


def source(body: str) -> str:
    lines = body.strip("\n").rstrip().split("\n")
    return HEAD + "\n".join(line[4:] for line in lines) + "\n"


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", FOLLOWED)
def test_agrees_with_torchscript(name: str) -> None:
    function, graph = scripted(source(FOLLOWED[name]))
    functionalize(graph)
    assert [node for node in graph.walk() if MutationInfo.of(node.op).written] == []
    for trips in range(4):
        a, b = torch.arange(12.0).reshape(3, 4) - 5, torch.arange(12.0).reshape(3, 4) * 10
        expected = flat(function(a.clone(), b.clone(), trips))
        torch.testing.assert_close(run(graph, [a, b, trips]), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_it_cannot_follow(name: str) -> None:
    _, graph = scripted(source(REFUSED[name]))
    with pytest.raises(CaptureError, match="to fix this, clone"):
        functionalize(graph)


def test_a_loop_carries_only_what_is_written() -> None:
    _, graph = scripted(source(FOLLOWED["a loop writes to what it carries"]))
    functionalize(graph)
    (loop,) = [node for node in graph.nodes if node.op == "prim::Loop"]
    assert len(loop.outputs) == len(loop.blocks[0].inputs) - 1 == len(loop.blocks[0].outputs) - 1 == 2


def scan(write: bool) -> Graph:
    """Build a ``prim::Scan`` that adds each row to a sum; with `write`, in place."""
    row, matrix = TensorType(torch.float32, (4,)), TensorType(torch.float32, (3, 4))
    total, x = Value("total", row), Value("x", matrix)
    state, slice_, new, doubled = (Value(name, row) for name in ("state", "slice", "new", "doubled"))
    copy, end, all_ = Value("copy", row), Value("end", row), Value("all", matrix)
    nodes = [Node("aten::clone", [state, None], [copy]), Node("aten::add_.Tensor", [state if write else copy, slice_, 1], [new])]
    nodes.append(Node("aten::mul.Tensor", [new, 2], [doubled]))
    block = Graph([state, slice_], [new, doubled], nodes)
    return Graph([total, x], [end, all_], [Node("prim::Scan", [[total], [x]], [end, all_], [block])])


def test_scan_may_write_to_its_own() -> None:
    graph = scan(write=False)
    functionalize(graph)
    assert [node.op for node in graph.nodes[0].blocks[0].nodes][-2:] == ["aten::add.Tensor", "aten::mul.Tensor"]
    with pytest.raises(CaptureError, match="prim::Scan writes to a tensor that it was given"):
        functionalize(scan(write=True))


def test_types_of_what_branches_return() -> None:
    kind = TensorType(torch.float16, ("batch", 3))
    cond, x, y = Value("cond", ScalarType(bool)), Value("x", kind), Value("y", kind)
    then = Graph(nodes=[Node("aten::relu_", [x], [y])])
    graph = Graph([cond, x], [x], [Node("prim::If", [cond], [], [then, Graph()])])
    written = functionalize(graph)
    assert (graph.outputs[0].type, written) == (kind, ["x"])
    for switch, start in itertools.product([True, False], [-1.0, 1.0]):
        given = torch.full((2, 3), start, dtype=torch.float16)
        torch.testing.assert_close(run(graph, [switch, given]), [given.relu() if switch else given])
