"""The results of `op`: constants, shared nodes, functions, domains, nested graphs."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import torch

from onnxexp import Builder, LoweringError, OpsetError
from onnxexp._builder.builder import Declined, state_of
from onnxexp._lowering.assemble import assemble
from onnxexp._neutral_graph import TensorType
from onnxexp._serialize import to_proto
from tests.core.building import X, finish, kinds, number, run, same, vector


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


def test_equal_operands_are_one_constant_and_unequal_ones_are_not() -> None:
    op = Builder(20)
    x = vector(op)
    for factor in (0.0, -0.0, float("nan"), float("nan"), 0.0, 1, 1.0):
        op.Mul(x, factor)
    op.Reshape(x, [1, 6])
    op.Reshape(op.Neg(x), [1, 6])
    values = [str(value.const_value.torch.tolist()) for value in state_of(op).initializers.values()]
    assert sorted(values) == ["-0.0", "0.0", "1.0", "[1, 6]", "nan"]


def test_zeros_of_either_sign_are_two_attributes() -> None:
    op = Builder(20)
    x = vector(op)
    given = op.LeakyRelu(x, alpha=0.0), op.LeakyRelu(x, alpha=-0.0), op.LeakyRelu(x, alpha=0.0)
    assert given[0] is not given[1] and given[0].value is given[2].value


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
    with pytest.raises(LoweringError, match="exists only while a captured node is being lowered"):
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
    assert foo.input[0] == "x" and len(foo.input) == 2, "what is left out at the end is no input"


def test_an_attribute_of_another_domain_may_have_any_name_and_any_type() -> None:
    op = Builder(20)
    foo = op.domain("my.domain").call("Foo", vector(op), name="a name", sizes=ir.Attr("sizes", ir.AttributeType.FLOATS, [1, 2]))
    (node,) = to_proto(assemble(op, [("y", foo)])).graph.node
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert attributes == {"name": b"a name", "sizes": [1.0, 2.0]}


def test_a_trial_leaves_no_nodes() -> None:
    op = Builder(20)
    x = vector(op)
    with op.trial():
        dropped = op.Concat(x, x, axis=0)
        assert (dropped.dtype, dropped.shape) == (torch.float32, (4, 3))
    same(run(op, op.Concat(x, x, axis=0), x=X), torch.cat([X, X]))
    assert kinds(op) == ["Concat"], "the nodes of a trial are not shared either"


def test_a_subgraph_has_the_inputs_and_outputs_of_its_body() -> None:
    op = Builder(20)
    graph = op.subgraph("body", lambda: [op.Neg(vector(op, name="inner"))])
    assert [value.name for value in graph.inputs] == ["inner"] and [node.op_type for node in graph] == ["Neg"]
    assert kinds(op) == []


@pytest.mark.parametrize(("dtype", "kind"), [(torch.bool, bool), (torch.int32, int), (torch.float16, float)])
def test_a_tensor_as_a_number(dtype: torch.dtype, kind: type) -> None:
    op = Builder(20)
    tensor = op.input("n", TensorType(dtype, ()))
    assert (op.as_number(tensor).scalar, op.as_number(tensor).dtype, tensor.scalar) == (kind, dtype, None)


def test_nothing_is_known_of_what_a_foreign_operator_gives_until_it_is_told() -> None:
    op = Builder(20)
    made = op.domain("my.domain").Foo(vector(op))
    assert made.known_dtype is None and made.shape is None
    with pytest.raises(LoweringError, match=r"dtype of %Foo: .* is not known; .*stamp"):
        made.dtype
    with pytest.raises(LoweringError, match=r"that of %Foo.* is not known, so 1 cannot become a constant.*stamp"):
        op.Add(made, 1)
    made.stamp(TensorType(torch.int64, (2,)))
    added = op.Add(made, 1)
    assert (added.dtype, added.shape) == (torch.int64, (2,))


def test_a_domain_with_schemas_is_checked_by_them() -> None:
    op = Builder(20, custom_opsets={"ai.onnx.ml": 3})
    scaled = op.domain("ai.onnx.ml").Scaler(vector(op), offset=[0.0], scale=[2.0])
    scaled.stamp(TensorType(torch.float32, (2, 3)))
    same(run(op, scaled, x=X), X * 2)
    with pytest.raises(TypeError, match="no input or attribute"):
        op.domain("ai.onnx.ml").Scaler(vector(op, name="z"), bias=1.0)


class Function:
    """An object with `to_function_proto`, as onnxscript's functions have it."""

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
    three, _ = op.function(function, op.Add(one, two), op.constant(3.0), slope=0.25)
    assert (three.dtype, three.shape) == (torch.float32, (2, 3))  # as the function's own operators say
    assert [function.name for function in state_of(op).functions.values()] == ["scale"]
    expected = torch.nn.functional.leaky_relu(X, 0.5) * 2
    same(run(op, [one, two, three], x=X), expected, -expected, torch.zeros(2, 3))


@pytest.mark.parametrize(("written", "opset"), [(13, 20), (15, 24), (20, 15)])
def test_functions_of_another_opset_with_the_same_operators(written: int, opset: int) -> None:
    """LeakyRelu takes more types from opset 16 on, and has the same attribute."""
    op = Builder(opset)
    one, _ = op.function(Function(written), vector(op), 2.0, slope=0.5)
    (function,) = state_of(op).functions.values()
    assert function.opset_imports[""] == opset
    same(run(op, [one], x=X), torch.nn.functional.leaky_relu(X, 0.5) * 2)


@pytest.mark.parametrize("opset", [13, 20])
def test_a_shape_is_inferred_through_an_operator_that_is_a_function(opset: int) -> None:
    """LessOrEqual has no inference of its own before opset 16, only a body."""
    op = Builder(opset)
    compared = op.LessOrEqual(vector(op), op.Unsqueeze(vector(op, name="other"), axes=[1]))
    assert compared.shape == (2, 2, 3) and compared.dtype == torch.bool
