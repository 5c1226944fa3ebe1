"""What nobody uses is not in the finished model, as onnx-ir's own pass would have it."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass
from onnxscript import FLOAT, opset20, script

from onnxexp import Builder, Tensor, assembly
from onnxexp.graph import TensorType
from onnxexp.ownership import owned
from onnxexp.serialize import to_proto
from tests.core.building import vector


def chain(op: Builder) -> Tensor:
    x = vector(op)
    op.Mul(op.Exp(x), op.constant(torch.ones(3)))
    return op.Neg(x)  # type: ignore[no-any-return]


def indices(op: Builder) -> Tensor:
    """The second output of a MaxPool is optional; TopK's are not."""
    x = op.input("x", TensorType(torch.float32, (1, 2, 6)))
    pooled, _ = op.MaxPool(x, kernel_shape=[2], outputs=2)
    largest, _ = op.TopK(pooled, [1], outputs=2)
    return largest  # type: ignore[no-any-return]


def only_the_state(op: Builder) -> Tensor:
    """The first output of an LSTM is optional too, and has to keep its place."""
    x = op.input("x", TensorType(torch.float32, (4, 1, 3)))
    weights = op.constant(torch.randn(1, 8, 3)), op.constant(torch.randn(1, 8, 2))
    return op.LSTM(x, *weights, None, hidden_size=2, outputs=3)[1]  # type: ignore[no-any-return]


def inside(op: Builder) -> Tensor:
    """What only an unused node of a branch reads is unused outside."""
    x = vector(op)
    outer = op.Exp(x)

    def then() -> list[Tensor]:
        op.Mul(outer, 2.0)
        return [op.Neg(x)]

    return op.if_(op.Greater(op.ReduceSum(x, keepdims=0), 0.0), then, lambda: [op.Abs(x)])[0]


def normalized(op: Builder) -> Tensor:
    """How many outputs a BatchNormalization has says what it computes."""
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
    """Nothing tells which outputs of an unknown operator are optional; what is not given at the end is left out."""
    domain = op.domain("my.domain")
    result: Tensor = domain.call("Two", vector(op), None, None, outputs=2)[0]
    result.stamp(TensorType(torch.float32, (2, 3)))
    return result


def test_what_only_an_unused_loop_reads_goes_with_it() -> None:
    """The pass of onnx-ir leaves it."""
    op = Builder(20)
    x = vector(op)
    outer, factor = op.Exp(x), op.constant(torch.full((3,), 7.0))

    def nested(carried: Tensor) -> list[Tensor]:
        return [
            op.if_(op.Greater(op.ReduceSum(carried, keepdims=0), 0.0), lambda: [op.Add(carried, outer)], lambda: [carried])[0]
        ]

    op.loop(3, None, lambda number, carried: (None, nested(op.Mul(carried, factor)), []), [x])
    model = assembly.assemble(op, [("y", op.Neg(x))])
    assert [node.op_type for node in model.graph] == ["Neg"]
    assert not model.graph.initializers


@pytest.mark.parametrize("build", [chain, indices, only_the_state, inside, normalized, called, foreign])
def test_it_leaves_what_the_pass_of_onnx_ir_leaves(build: Callable[[Builder], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> ir.Model:
        torch.manual_seed(0)
        op = Builder(20)
        return assembly.assemble(op, [("y", build(op))])

    ours = to_proto(model())
    monkeypatch.setattr(assembly, "remove_unused", lambda *_: None)
    untouched = owned(model())
    assert build in (normalized, foreign) or to_proto(untouched) != ours
    RemoveUnusedNodesPass()(untouched)
    assert to_proto(untouched) == ours
