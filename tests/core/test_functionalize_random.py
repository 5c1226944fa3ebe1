"""Functionalized graphs against eager: random views, writes, branches, loops."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from onnxexp._errors import CaptureError
from onnxexp._functionalize import functionalize
from onnxexp._functionalize.mutation import MutationInfo
from onnxexp._neutral_graph import Graph, Node, TensorType, Value
from onnxexp._torch_ops.schemas import bind, overload
from tests.core.interpreter import check_types, run
from tests.core.scripted import scripted

STRAIGHT, SCRIPTS = 400, 80


class Program:
    """Runs operators on tensors and notes the same calls as a neutral graph."""

    def __init__(self, seed: int, inputs: list[Tensor]) -> None:
        self.random = random.Random(seed)
        self.graph = Graph()
        self.tensors: list[Tensor] = list(inputs)
        self.values = [self._value(tensor) for tensor in inputs]
        self.graph.inputs = list(self.values)

    def _value(self, tensor: Tensor) -> Value:
        return Value("v", TensorType(tensor.dtype, tuple(tensor.shape)))

    def call(self, op: str, *args: Any, keep: bool = True) -> int:
        """Call an operator; an index among `args`, in a tuple, is a tensor of the program."""
        function = overload(op)
        assert function is not None
        result = function(*(self.tensors[arg[0]] if isinstance(arg, tuple) else arg for arg in args))
        made = list(result) if isinstance(result, (list, tuple)) else [result]
        outputs = [self._value(tensor) for tensor in made]
        values = [self.values[arg[0]] if isinstance(arg, tuple) else arg for arg in args]
        self.graph.nodes.append(Node(op, bind(function._schema, values, {}), outputs))
        self.tensors += made
        self.values += outputs
        return len(self.tensors) - 1

    def step(self) -> None:
        choose = self.random.choices([self.view, self.write, self.compute], [5, 4, 1])[0]
        choose(self.random.randrange(len(self.tensors)))

    def compute(self, index: int) -> None:
        self.call(*self.random.choice([("aten::add.Scalar", (index,), 1), ("aten::clone", (index,))]))

    def view(self, index: int) -> None:
        shape, pick = list(self.tensors[index].shape), self.random.randrange
        rank, x = len(shape), (index,)
        calls: list[tuple[Any, ...]] = [("aten::alias", x), ("aten::contiguous", x), ("aten::to.dtype", x, torch.float32)]
        calls += [
            ("aten::squeeze", x),
            ("aten::reshape", x, [*shape, 1]),
            ("aten::reshape", x, [-1] if 0 not in shape else shape),
        ]
        calls += [("aten::unsqueeze", x, pick(-rank - 1, rank + 1)), ("aten::flatten.using_ints", x), ("aten::detach", x)]
        if self.tensors[index].is_contiguous():
            calls += [("aten::view", x, [self.tensors[index].numel()]), ("aten::view", x, [1, *shape])] * 2
        if rank:
            dim = pick(-rank, rank)
            size = shape[dim]
            calls += [("aten::permute", x, self.random.sample(range(rank), rank)), ("aten::transpose.int", x, dim, pick(rank))]
            calls += [("aten::slice.Tensor", x, dim, pick(-size, size + 1), pick(-size, size + 2), pick(1, 3))] * 3
            calls += [("aten::split.Tensor", x, pick(1, 3), dim), ("aten::chunk", x, pick(1, 3), dim)]
            calls += [("aten::squeeze.dim", x, dim), ("aten::expand", x, [2, *shape])]
            if size:
                calls += [("aten::select.int", x, dim, pick(-size, size)), ("aten::unbind.int", x, dim)] * 2
                calls += [("aten::narrow", x, dim, start := pick(size), pick(size - start + 1))]
        if rank > 1:
            calls += [("aten::diagonal", x, pick(-1, 2), *self.random.sample(range(rank), 2))]
        self.call(*self.random.choice(calls))

    def write(self, index: int) -> None:
        x, source = (index,), (self._source(index),)
        calls: list[tuple[Any, ...]] = [("aten::add_.Tensor", x, 2), ("aten::mul_.Tensor", x, 3), ("aten::neg_", x)]
        calls += [("aten::zero_", x), ("aten::fill_.Scalar", x, 5)]
        calls += [("aten::add_.Tensor", x, source), ("aten::sub_.Tensor", x, source), ("aten::copy_", x, source)] * 2
        self.call(*self.random.choice(calls))

    def _source(self, index: int) -> int:
        """Choose a tensor that broadcasts to another; clone it where they share memory.

        torch leaves writes between tensors with shared memory undefined.
        """
        target = self.tensors[index]
        fits = [other for other, tensor in enumerate(self.tensors) if _fits(tensor, target)]
        other = self.random.choice(fits)
        shared = self.tensors[other].untyped_storage().data_ptr() == target.untyped_storage().data_ptr()
        return self.call("aten::clone", (other,)) if shared else other


def _fits(tensor: Tensor, target: Tensor) -> bool:
    try:
        return torch.broadcast_shapes(tensor.shape, target.shape) == target.shape
    except RuntimeError:
        return False


def agrees(program: Program, inputs: list[Tensor]) -> bool:
    """Return whether functionalization succeeds; fail where its result is wrong."""
    keep = program.random.sample(range(len(program.tensors)), min(4, len(program.tensors)))
    program.graph.outputs = [program.values[index] for index in keep]
    text = str(program.graph)
    try:
        functionalize(program.graph)
    except CaptureError:
        return False
    assert [node for node in program.graph.nodes if MutationInfo.of(node.op).written] == []
    for got, index in zip(run(program.graph, inputs), keep, strict=True):
        assert torch.equal(got, program.tensors[index]), f"{text}\n{program.graph}"
    check_types(program.graph, inputs)
    return True


def test_random_views_and_writes() -> None:
    done = 0
    for seed in range(STRAIGHT):
        inputs = [torch.arange(24.0).reshape(2, 3, 4) - 7, torch.arange(6.0).reshape(3, 2) * 10]
        program = Program(seed, [tensor.clone() for tensor in inputs])
        try:
            for _ in range(program.random.randrange(3, 16)):
                program.step()
        except RuntimeError as error:
            if "memory location" not in str(error):  # eager refuses to write to an expanded tensor
                raise
        else:
            done += agrees(program, inputs)
    assert done > STRAIGHT * 0.85


STATEMENTS = """
{t} += {u}.clone()|{t}.mul_(2)|{t}.sub_(1)|{t}[{i}] = 7.0|{t}[:, 1:3].add_({i})|{t} = {u} + 1|{t} = {u}|{t} = {u}.clone()
{v} = {t}[{i}]|{v}.add_({i})|{v}.copy_({t}[2].clone())|{t}[1] += {v}.clone()|{t}.t().neg_()|{t}.view([-1])[2:7].zero_()
"""
SIMPLE = STATEMENTS.strip().replace("\n", "|").split("|")


def statements(rng: random.Random, depth: int) -> list[str]:
    """Write a few random statements on the matrices a, b, c and the rows v, w."""
    lines: list[str] = []
    for _ in range(rng.randrange(1, 4) if depth else rng.randrange(2, 8)):
        kind = rng.random()
        if kind < 0.75 or depth == 2:
            names = {"t": rng.choice("abc"), "u": rng.choice("abc"), "v": rng.choice("vw"), "i": rng.randrange(3)}
            lines.append(rng.choice(SIMPLE).format(**names))
            continue
        head = rng.choice([f"for i{depth} in range(n):", "if n > 1:", "if n == 3:"])
        lines += [head, *(f"  {line}" for line in statements(rng, depth + 1))]
        if head.startswith("if") and rng.random() < 0.6:
            lines += ["else:", *(f"  {line}" for line in statements(rng, depth + 1))]
    return lines


def script(seed: int) -> str:
    rng = random.Random(seed)
    outputs = rng.sample("abcvw", rng.randrange(1, 4))
    lines = ["c = a + b", "v = a[0]", "w = c[1]", *statements(rng, 0), f"return ({', '.join(outputs)},)"]
    return "def f(a, b, n: int):\n" + "".join(f"  {line}\n" for line in lines)


def script_agrees(source: str) -> bool:
    function, graph = scripted(source)
    try:
        functionalize(graph)
    except CaptureError:
        return False
    assert [node for node in graph.walk() if MutationInfo.of(node.op).written] == []
    for trips in range(4):
        inputs = [torch.arange(12.0).reshape(3, 4) - 5, torch.arange(12.0).reshape(3, 4) * 10]
        try:
            expected = function(*(tensor.clone() for tensor in inputs), trips)
        except RuntimeError as error:
            if "Expected Tensor but got None" not in str(error):  # TorchScript frees a value that it still needs
                raise
            continue
        for got, right in zip(run(graph, [*inputs, trips]), expected, strict=True):
            assert torch.equal(got, right), f"{source}\n{graph}"
    return True


def test_random_scripts() -> None:
    assert sum(script_agrees(script(seed)) for seed in range(SCRIPTS)) > SCRIPTS * 0.6


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_many_random_scripts(part: int) -> None:
    assert sum(script_agrees(script(1000 + part * 100 + index)) for index in range(100)) > 60
