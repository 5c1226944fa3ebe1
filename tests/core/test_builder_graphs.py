"""If, Loop and Scan, and sequences, as `op` builds them, run in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from onnxexp import Builder, LoweringError, Tensor
from onnxexp._neutral_graph import TensorType
from onnxexp.graph import SymbolicSize
from tests.core.building import X, kinds, number, ready, run, same, vector


@pytest.mark.parametrize("opset", [9, 11, 13, 20])
@pytest.mark.parametrize("flag", [True, False])
def test_if_takes_one_branch_and_uses_values_around_it(opset: int, flag: bool) -> None:
    op = Builder(opset)
    x, cond = vector(op), number(op, bool, "cond")
    shifted = op.Add(x, 1)
    results = op.if_(cond, lambda: [op.Mul(shifted, x), x], lambda: [shifted, op.constant(torch.zeros(2, 3))])
    assert [result.shape for result in results] == [(2, 3)] * 2
    same(run(op, results, x=X, cond=flag), *([(X + 1) * X, X] if flag else [X + 1, torch.zeros(2, 3)]))


def test_branches_must_agree_on_number_and_dtype() -> None:
    op = Builder(20)
    x, cond = vector(op), number(op, bool, "cond")
    with pytest.raises(LoweringError, match="in one branch and"):
        op.if_(cond, lambda: [x], lambda: [op.cast(x, torch.int64)])
    with pytest.raises(LoweringError, match="the branches of an if return 2 and 1 values"):
        op.if_(cond, lambda: [x, x], lambda: [x])


def test_nodes_of_one_branch_are_not_shared_with_the_other_nor_with_what_follows() -> None:
    op = Builder(20)
    x, cond = vector(op), number(op, bool, "cond")
    (chosen,) = op.if_(cond, lambda: [op.Neg(x)], lambda: [op.Abs(op.Neg(x))])
    after = op.Neg(x)
    same(run(op, [chosen, after], x=X, cond=False), X.abs(), -X)


def test_values_inside_see_what_was_computed_outside() -> None:
    op = Builder(20)
    x, cond = vector(op), number(op, bool, "cond")
    negative = op.Neg(x)
    op.if_(cond, lambda: [op.Neg(x)], lambda: [op.Abs(op.Neg(x))])
    assert kinds(op) == ["Neg", "If"]
    assert negative is op.Neg(x)


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_loop_counts_and_stacks(opset: int) -> None:
    op = Builder(opset)
    x, n = vector(op), number(op)

    def body(i: Tensor, total: Tensor) -> Any:
        total = op.Add(total, op.Mul(x, op.cast(i, torch.float32)))
        return None, [total], [total, i]

    total, stacked, indices = op.loop(n, None, body, [x])
    assert total.shape == (2, 3)
    assert stacked.shape is not None and stacked.shape[1:] == (2, 3)
    steps = [X + X * sum(range(i + 1)) for i in range(4)]
    call = ready(op, [total, stacked, indices])
    same(call(x=X, n=4), steps[-1], torch.stack(steps), torch.arange(4))
    same(call(x=X, n=0)[:1], X)


def test_loop_goes_on_while_its_condition_holds() -> None:
    op = Builder(20)
    x = number(op, float, "x")

    def body(i: Tensor, value: Tensor) -> Any:
        doubled = op.Mul(value, 2)
        return op.Less(doubled, 100), [doubled], []

    (result,) = op.loop(None, op.Less(x, 100), body, [x])
    call = ready(op, result)
    same(call(x=np.float32(3)), torch.tensor(192.0))
    same(call(x=np.float32(300)), torch.tensor(300.0))


def test_a_carried_size_may_change() -> None:
    op = Builder(20)
    x = vector(op)
    types = [TensorType(torch.float32, ("rows", 3))]
    (grown,) = op.loop(3, None, lambda i, rows: (None, [op.Concat(rows, x, axis=0)], []), [x], types=types)
    assert grown.shape is not None and grown.shape[1] == 3
    same(run(op, grown, x=X), torch.cat([X] * 4))


def test_what_is_carried_keeps_its_dtype_and_number() -> None:
    op = Builder(20)
    x = vector(op)
    with pytest.raises(LoweringError, match=r"value 0 carried by a Loop starts as torch.float32 and becomes torch.int64"):
        op.loop(3, None, lambda i, value: (None, [i], []), [x])
    with pytest.raises(LoweringError, match=r"a Loop starts with 1 carried values and its body returns 2"):
        op.loop(3, None, lambda i, value: (None, [value, value], []), [x])
    with pytest.raises(LoweringError, match=r"a Scan starts with 1 carried values and its body returns 0"):
        op.scan(lambda total, row: ([], [row]), [op.constant(torch.zeros(3))], [x])


def test_loops_nest() -> None:
    op = Builder(20)
    x = vector(op)

    def inner(j: Tensor, total: Tensor) -> Any:
        return None, [op.Add(total, op.cast(j, torch.float32))], []

    def outer(i: Tensor, total: Tensor) -> Any:
        (step,) = op.if_(op.Less(i, 2), lambda: op.loop(op.Add(i, 1), None, inner, [total]), lambda: [op.Mul(total, x)])
        return None, [step], [step]

    last, steps = op.loop(3, None, outer, [x])
    same(run(op, [last, steps], x=X), (X + 1) * X, torch.stack([X, X + 1, (X + 1) * X]))


@pytest.mark.parametrize("opset", [9, 11, 20])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(opset: int, reverse: bool) -> None:
    op = Builder(opset)
    x, w = vector(op), vector(op, name="w")
    start = op.constant(torch.zeros(3))

    def body(total: Tensor, row: Tensor, weight: Tensor) -> Any:
        total = op.Add(total, op.Mul(row, weight))
        return [total], [total, row]

    total, totals, rows = op.scan(body, [start], [x, w], reverse=reverse)
    assert (total.shape, totals.shape, rows.shape) == ((3,), (2, 3), (2, 3))
    flip: Callable[[torch.Tensor], torch.Tensor] = (lambda t: t.flip(0)) if reverse else (lambda t: t)
    expected = flip(flip(X * X).cumsum(0))
    same(run(op, [total, totals, rows], x=X, w=X), expected[0 if reverse else -1], expected, X)


def test_sizes_that_nobody_says_to_change_are_those_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Builder(20)
    x = vector(op)
    monkeypatch.setattr(Builder, "infer", lambda self, tensor: pytest.fail(f"{tensor!r} was inferred"))

    def turned(value: Tensor) -> Tensor:
        return op.Einsum(value, equation="ij->ij")  # type: ignore[no-any-return]

    (looped,) = op.loop(2, None, lambda i, value: (None, [turned(value)], []), [x])
    (scanned,) = op.scan(lambda value, row: ([turned(value)], []), [looped], [x], reverse=True)
    assert (looped.shape, scanned.shape) == ((2, 3), (2, 3))
    monkeypatch.undo()
    same(run(op, [looped, scanned], x=X), X, X)


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_sequences_flow_through(opset: int) -> None:
    op = Builder(opset)
    x = vector(op)
    parts = op.SplitToSequence(x, axis=1)
    first = op.Relu(op.SequenceAt(parts, 0))
    assert op.SequenceLength(parts).dtype == torch.int64
    joined = op.ConcatFromSequence(parts, axis=0)
    for tensor in (first, joined):
        tensor.stamp(TensorType(torch.float32, ("rows", 1)))
    same(run(op, [first, joined], x=X), X[:, :1].relu(), X.t().reshape(6, 1))


def test_a_loop_that_may_stop_early_stacks_nobody_knows_how_much() -> None:
    op = Builder(20)
    x = number(op, float, "x")

    def body(i: Tensor, value: Tensor) -> Any:
        doubled = op.Mul(value, 2)
        return op.Less(doubled, 100), [doubled], [doubled]

    last, steps = op.loop(5, None, body, [x])
    assert steps.shape is not None and isinstance(steps.shape[0], SymbolicSize)
    call = ready(op, [last, steps])
    same(call(x=np.float32(40)), torch.tensor(160.0), torch.tensor([80.0, 160.0]))
    same(call(x=np.float32(1)), torch.tensor(32.0), torch.tensor([2.0, 4.0, 8.0, 16.0, 32.0]))
    fixed = Builder(20)
    _, stacked = fixed.loop(5, None, lambda i, value: (None, [value], [value]), [number(fixed, float, "x")])
    assert stacked.shape == (5,)
