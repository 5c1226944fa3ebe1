"""What `op` makes: constants, shared nodes, functions, other domains, graphs inside nodes. Run in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from onnxexp import Builder, LoweringError, OpsetError, Tensor
from onnxexp.assembly import assemble
from onnxexp.builder import Declined
from onnxexp.graph import ScalarType, TensorType
from onnxexp.serialize import to_proto

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def vector(op: Builder, dtype: torch.dtype = torch.float32, name: str = "x") -> Tensor:
    return op.input(name, TensorType(dtype, (2, 3)))


def number(op: Builder, kind: type = int, name: str = "n") -> Tensor:
    return op.input(name, ScalarType(kind, name))


def finish(op: Builder, results: Any) -> onnx.ModelProto:
    tensors = [results] if isinstance(results, Tensor) else list(results)
    model = to_proto(assemble(op, [(f"y{index}", tensor) for index, tensor in enumerate(tensors)]))
    onnx.checker.check_model(model, full_check=True)
    return model


def ready(op: Builder, results: Any) -> Callable[..., list[torch.Tensor]]:
    session = onnxruntime.InferenceSession(finish(op, results).SerializeToString())

    def call(**inputs: Any) -> list[torch.Tensor]:
        arrays = session.run(None, {name: np.asarray(value) for name, value in inputs.items()})
        return [torch.from_numpy(np.asarray(array)) for array in arrays]

    return call


def run(op: Builder, results: Any, **inputs: Any) -> list[torch.Tensor]:
    return ready(op, results)(**inputs)


def kinds(op: Builder) -> list[str]:
    return [node.op_type for node in op.state.scope.nodes]


def same(actual: Any, *expected: torch.Tensor) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
)
def test_a_number_becomes_a_constant_of_the_other_operands_dtype(dtype: torch.dtype) -> None:
    op = Builder(20)
    total = op.Add(vector(op, dtype), 2)
    assert total.dtype == dtype
    assert kinds(op) == ["Add"]
    swapped = op.Sub(1, total)
    assert swapped.dtype == dtype


def test_a_fraction_does_not_fit_an_integer() -> None:
    op = Builder(20)
    with pytest.raises(LoweringError, match=r"the number 0.5 does not fit into torch.int64; cast the other operand first"):
        op.Mul(vector(op, torch.int64), 0.5)
    assert op.Mul(vector(op, torch.int64, "z"), 2.0).dtype == torch.int64


def test_two_dtypes_under_one_variable_are_refused_by_name() -> None:
    op = Builder(20)
    with pytest.raises(
        LoweringError, match=r"one dtype for all of T at opset 20: B is torch.int64, another input is torch.float32"
    ):
        op.Add(vector(op), vector(op, torch.int64, "z"))


def test_a_dtype_that_no_version_takes_is_refused() -> None:
    op = Builder(20)
    with pytest.raises(LoweringError, match=r"ONNX's Sin does not take torch.int64 as input at opset 20$") as raised:
        op.Sin(vector(op, torch.int64))
    assert not isinstance(raised.value, OpsetError)


def test_a_list_may_mix_numbers_and_tensors() -> None:
    op = Builder(20)
    x, n, m = vector(op), number(op), number(op, name="m")
    flat = op.Reshape(x, [n, 3, op.constant(1), m])
    same(run(op, flat, x=X, n=2, m=1), X.reshape(2, 3, 1, 1))
    assert kinds(op).count("Concat") == 1


def test_a_list_of_known_tensors_is_one_constant() -> None:
    op = Builder(20)
    assert op.Reshape(vector(op), [op.constant(3), 2]).shape == (3, 2)
    assert kinds(op) == ["Reshape"]


def test_equal_nodes_are_one_and_random_ones_are_not() -> None:
    op = Builder(20)
    x = vector(op)
    assert op.Relu(x) is op.Relu(x)
    assert op.Add(x, 1) is op.Add(x, 1.0)
    assert op.Add(x, 1) is not op.Add(x, 2)
    assert op.ReduceSum(x, axes=[1]) is not op.ReduceSum(x, axes=[1], keepdims=0)
    assert op.Transpose(x, perm=[1, 0]) is op.Transpose(x, perm=(1, 0))
    assert op.RandomNormalLike(x) is not op.RandomNormalLike(x)
    assert op.Dropout(x, 0.5, True) is not op.Dropout(x, 0.5, True)


def test_zero_and_minus_zero_true_and_one_are_different_constants() -> None:
    op = Builder(20)
    x = vector(op)
    assert op.Div(x, 0.0) is not op.Div(x, -0.0)
    same(run(op, [op.Div(x, 0.0), op.Div(x, -0.0)], x=X), X / 0.0, X / -0.0)
    assert op.constant(True).value is not op.constant(1).value
    assert op.constant(1).value is op.constant(1).value


def test_equal_constants_are_stored_once() -> None:
    op = Builder(20)
    x = vector(op)
    weight = torch.arange(6.0).reshape(2, 3)
    first = op.Add(x, op.wrap_constant(weight, "weight"))
    second = op.Mul(first, op.wrap_constant(weight.clone(), "copy"))
    model = finish(op, second)
    assert [tensor.name for tensor in model.graph.initializer] == ["weight"]


def test_large_constants_are_shared_by_memory_and_kept_apart_otherwise() -> None:
    op = Builder(20)
    x = op.input("x", TensorType(torch.float32, (100, 100)))
    weight = torch.randn(100, 100)
    total = op.Add(x, op.wrap_constant(weight, "weight"))
    total = op.Add(total, op.wrap_constant(weight.view(100, 100), "view"))
    total = op.Add(total, op.wrap_constant(weight.clone(), "clone"))
    assert [tensor.name for tensor in finish(op, total).graph.initializer] == ["weight", "clone"]


def test_nothing_unused_is_kept() -> None:
    op = Builder(20)
    x = vector(op)
    op.wrap_constant(torch.ones(3), "unused")
    model = finish(op, op.Add(x, 1))
    assert len(model.graph.initializer) == 1


def test_static_and_is_static() -> None:
    op = Builder(20)
    x = vector(op)
    assert op.static(op.constant([1, 2])) == [1, 2]
    assert op.static([1, op.constant(2)]) == [1, 2]
    assert op.static(op.constant(2.5)) == 2.5
    assert op.static("mean") == "mean"
    assert op.is_static([1, op.constant(2)]) and not op.is_static([1, x])
    with pytest.raises(LoweringError, match="dim must be known at export, but it depends on the model's inputs"):
        op.static(x, "dim")


def test_constants() -> None:
    op = Builder(20)
    for value, dtype, shape in [
        (1, torch.int64, ()),
        (True, torch.bool, ()),
        (1.5, torch.float32, ()),
        (1j, torch.complex64, ()),
        ([1.5, 2.5], torch.float32, (2,)),
        ([[1, 2], [3, 4]], torch.int64, (2, 2)),
        ([], torch.int64, (0,)),
        ([True], torch.bool, (1,)),
        (torch.ones(2, dtype=torch.bfloat16), torch.bfloat16, (2,)),
    ]:
        made = op.constant(value)
        assert (made.dtype, made.shape) == (dtype, shape), value
    assert op.constant(3.0, torch.int64).const == torch.tensor(3)
    assert op.constant(2, torch.bool).const is not None and op.constant(2, torch.bool).const.item() is True  # type: ignore[union-attr]


def test_cast_does_nothing_where_there_is_nothing_to_do() -> None:
    op = Builder(20)
    x = vector(op)
    assert op.cast(x, torch.float32) is x
    assert op.cast(x, torch.int64).shape == (2, 3)
    assert op.cast(2, torch.float64).dtype == torch.float64
    assert kinds(op) == ["Cast"]


def test_what_op_says_about_the_node() -> None:
    op = Builder(20)
    with pytest.raises(LoweringError, match="only known while a captured node is being lowered"):
        op.node
    with pytest.raises(Declined, match="not for me"):
        op.decline("not for me")
    with pytest.raises(OpsetError, match="later") as raised:
        op.opset_error("later", 21)
    assert raised.value.first_opset == 21


@pytest.mark.parametrize("opset", [9, 10, 13, 18, 20])
def test_outputs(opset: int) -> None:
    op = Builder(opset)
    x = vector(op)
    parts = op.Split(x, axis=1, outputs=3)
    assert [part.shape for part in parts] == [(2, 1)] * 3
    values, indices = op.TopK(x, [2])
    (first,) = op.Split(x, outputs=1)
    same(run(op, [*parts, values, indices, first], x=X), *X.split(1, 1), *X.topk(2), X)


def test_other_domains_take_positional_inputs_and_keyword_attributes() -> None:
    op = Builder(20, custom_opsets={"my.domain": 3})
    x = vector(op)
    one = op.domain("my.domain").Foo(x, 2.0, None, alpha=1.5, mode="fast", sizes=[1, 2], flag=True, to=torch.int32, skipped=None)
    two, three = op.domain("other").Bar(one, outputs=2)
    model = to_proto(assemble(op, [("y", two), ("z", three)]))
    foo, bar = model.graph.node
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 20, "my.domain": 3, "other": 1}
    assert (foo.domain, foo.op_type, bar.domain, bar.op_type) == ("my.domain", "Foo", "other", "Bar")
    assert {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in foo.attribute} == {
        "alpha": 1.5,
        "mode": b"fast",
        "sizes": [1, 2],
        "flag": 1,
        "to": 6,
    }
    assert (foo.input[0], foo.input[2]) == ("x", "")


def test_a_domain_with_schemas_is_checked_by_them() -> None:
    op = Builder(20, custom_opsets={"ai.onnx.ml": 3})
    scaled = op.domain("ai.onnx.ml").Scaler(vector(op), offset=[0.0], scale=[2.0])
    scaled.stamp(TensorType(torch.float32, (2, 3)))
    same(run(op, scaled, x=X), X * 2)
    with pytest.raises(TypeError, match="no input or attribute"):
        op.domain("ai.onnx.ml").Scaler(vector(op, name="z"), bias=1.0)


class Function:
    """As onnxscript gives functions: something with `to_function_proto`."""

    def __init__(self, opset: int = 20) -> None:
        nodes = [
            onnx.helper.make_node("LeakyRelu", ["a"], ["leaky"]),
            onnx.helper.make_node("Mul", ["leaky", "b"], ["scaled"]),
            onnx.helper.make_node("Neg", ["scaled"], ["negative"]),
        ]
        nodes[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
        self.proto = onnx.helper.make_function(
            "local", "scale", ["a", "b"], ["scaled", "negative"], nodes, [onnx.helper.make_opsetid("", opset)], ["slope"]
        )

    def to_function_proto(self) -> onnx.FunctionProto:
        return self.proto


def test_functions_become_functions_of_the_model() -> None:
    op = Builder(20)
    x = vector(op)
    function = Function()
    one, two = op.function(function, x, 2.0, slope=0.5)
    for tensor in (one, two):
        tensor.stamp(TensorType(torch.float32, (2, 3)))
    three, _ = op.function(function, op.Add(one, two), op.constant(3.0), slope=0.25)
    three.stamp(TensorType(torch.float32, (2, 3)))
    assert [function.name for function in op.state.functions.values()] == ["scale"]
    expected = torch.nn.functional.leaky_relu(X, 0.5) * 2
    same(run(op, [one, two, three], x=X), expected, -expected, torch.zeros(2, 3))


# Graphs inside nodes


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
    with pytest.raises(LoweringError, match=r"a Loop starts with 1 carried values and its body gives 2"):
        op.loop(3, None, lambda i, value: (None, [value, value], []), [x])
    with pytest.raises(LoweringError, match=r"a Scan starts with 1 carried values and its body gives 0"):
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
