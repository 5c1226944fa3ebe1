"""Dead code and unused initializers are not in the finished model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from onnxscript import FLOAT, opset20, script

from onnxexp import Builder, Tensor
from onnxexp._lowering import assemble
from onnxexp._neutral_graph import TensorType
from tests.core.building import vector


def chain(op: Builder) -> Tensor:
    x = vector(op)
    op.Mul(op.Exp(x), op.constant(torch.ones(3)))
    return op.Neg(x)  # type: ignore[no-any-return]


def indices(op: Builder) -> Tensor:
    """Leave second outputs unused: a MaxPool's is optional, a TopK's is not."""
    x = op.input("x", TensorType(torch.float32, (1, 2, 6)))
    pooled, _ = op.MaxPool(x, kernel_shape=[2], outputs=2)
    largest, _ = op.TopK(pooled, [1], outputs=2)
    return largest  # type: ignore[no-any-return]


def only_the_state(op: Builder) -> Tensor:
    """Use only the state of an LSTM, whose optional first output keeps its place."""
    x = op.input("x", TensorType(torch.float32, (4, 1, 3)))
    weights = op.constant(torch.randn(1, 8, 3)), op.constant(torch.randn(1, 8, 2))
    return op.LSTM(x, *weights, None, hidden_size=2, outputs=3)[1]  # type: ignore[no-any-return]


def inside(op: Builder) -> Tensor:
    """Read a node only in an unused node of a branch, which makes it unused, too."""
    x = vector(op)
    outer = op.Exp(x)

    def then() -> list[Tensor]:
        op.Mul(outer, 2.0)
        return [op.Neg(x)]

    return op.if_(op.Greater(op.ReduceSum(x, keepdims=0), 0.0), then, lambda: [op.Abs(x)])[0]


def normalized(op: Builder) -> Tensor:
    """Use the first of three outputs, whose number decides what the node computes."""
    x = op.input("x", TensorType(torch.float32, (2, 3)))
    ones = op.constant(torch.ones(3))
    return op.BatchNormalization(x, ones, ones, ones, ones, training_mode=1, outputs=3)[0]  # type: ignore[no-any-return]


@script()
def wasteful(x: FLOAT[...]) -> FLOAT[...]:
    unused = opset20.Exp(x)  # noqa: F841
    return opset20.Neg(x)


def called(op: Builder) -> Tensor:
    return op.function(wasteful, vector(op))  # type: ignore[no-any-return]


def foreign(op: Builder) -> Tensor:
    """Use one of two outputs of an unknown operator, which keeps both."""
    domain = op.domain("my.domain")
    result: Tensor = domain.call("Two", vector(op), None, None, outputs=2)[0]
    result.stamp(TensorType(torch.float32, (2, 3)))
    return result


def test_what_only_an_unused_loop_reads_goes_with_it() -> None:
    """onnx-ir's own pass does not remove such a node."""
    op = Builder(20)
    x = vector(op)
    outer, factor = op.Exp(x), op.constant(torch.full((3,), 7.0))

    def nested(carried: Tensor) -> list[Tensor]:
        return [
            op.if_(op.Greater(op.ReduceSum(carried, keepdims=0), 0.0), lambda: [op.Add(carried, outer)], lambda: [carried])[0]
        ]

    op.loop(3, None, lambda number, carried: (None, nested(op.Mul(carried, factor)), []), [x])
    model = assemble.assemble(op, [("y", op.Neg(x))])
    assert [node.op_type for node in model.graph] == ["Neg"]
    assert not model.graph.initializers


LEFT = {
    chain: [("Neg", 1)],
    indices: [("MaxPool", 1), ("TopK", 2)],
    only_the_state: [("LSTM", 2)],
    inside: [("ReduceSum", 1), ("Greater", 1), ("If", 1)],
    normalized: [("BatchNormalization", 3)],
    called: [("wasteful", 1)],
    foreign: [("Two", 2)],
}


@pytest.mark.parametrize("build", LEFT)
def test_only_what_is_used_is_left(build: Callable[[Builder], Tensor]) -> None:
    op = Builder(20)
    model = assemble.assemble(op, [("y", build(op))])
    assert [(node.op_type, len(node.outputs)) for node in model.graph] == LEFT[build]
    assert all(value.uses() for value in model.graph.initializers.values())
    for inner in (*model.graph.subgraphs(), *(function.graph for function in model.functions.values())):
        assert len(inner) == 1
