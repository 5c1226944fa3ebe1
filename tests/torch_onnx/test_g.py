"""`g` and its values: what a symbolic may do with them, and errors for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import onnxscript
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_autograd import Autograd
from onnxexp_torch_onnx import symbolic_helper
from onnxexp_torch_onnx.context import add_op_with_blocks

X = torch.randn(3, 4)


class Identity(torch.autograd.Function):
    """A Function that the symbolic under test replaces."""

    @staticmethod
    def forward(ctx, x):
        return x * 1


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Identity.apply(x)


def export(symbolic: Callable[..., Any], opset: int = 17, x: torch.Tensor = X, **options: Any) -> onnxexp.ONNXProgram:
    plugins = [Autograd({Identity: symbolic}), ...]
    return onnxexp.export(Model(), (x,), opset_version=opset, dynamic_shapes={"x": {0: "n"}}, plugins=plugins, **options)


def nodes(program: onnxexp.ONNXProgram) -> list[Any]:
    return list(program.model.graph)


def test_attributes_of_every_kind() -> None:
    def symbolic(g, x):
        return g.op(
            "my::Foo", x, a_f=1, b_f=[0.5, 2], c_i=3, d_i=[4, 5], e_s="text", f_s=["one", "two"], g_t=torch.ones(2), h_i=[],
            i_f=[], none_i=None, j_i=True,
        )  # fmt: skip

    (node,) = nodes(export(symbolic))
    found = {name: attribute.value for name, attribute in node.attributes.items()}
    assert found.pop("g").numpy().tolist() == [1.0, 1.0]
    assert {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()} == {
        "a": 1.0, "b": [0.5, 2.0], "c": 3, "d": [4, 5], "e": "text", "f": ["one", "two"], "h": [], "i": [], "j": 1,
    }  # fmt: skip
    assert [node.attributes[name].type.name for name in "abcdefhi"] == [
        "FLOAT", "FLOATS", "INT", "INTS", "STRING", "STRINGS", "INTS", "FLOATS",
    ]  # fmt: skip


def test_raw_arguments() -> None:
    def symbolic(g, x):
        y = g.op("Add", x, torch.ones(4))
        y = g.op("Mul", y, 2.0)
        return g.op("Clip", y, None, g.op("Constant", value_t=torch.tensor(1.5)))

    program = export(symbolic)
    assert [node.op_type for node in nodes(program)] == ["Add", "Mul", "Clip"]
    torch.testing.assert_close(program(X), ((X + 1) * 2).clamp(max=1.5))


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 20])
def test_inputs_that_once_were_attributes(opset: int) -> None:
    def symbolic(g, x):
        y = g.op("Unsqueeze", x, axes_i=[0])
        y = g.op("ReduceSum", y, axes_i=[0], keepdims_i=0)
        y = g.op("Squeeze", g.op("Unsqueeze", y, g.op("Constant", value_t=torch.tensor([2]))), axes_i=[2])
        return g.op("Clip", g.op("Slice", y, axes_i=[1], starts_i=[0], ends_i=[4]), min_f=-10.0, max_f=10.0)

    program = export(symbolic, opset)
    torch.testing.assert_close(program(X), X)
    assert program.model.opset_imports[""] == opset


def test_aten_ops() -> None:
    def symbolic(g, x):
        y = g.at("foo", x, axis_i=1)
        return g.aten_op("bar", y, overload_name="int", outputs=2)[1]

    first, second = nodes(export(symbolic))
    assert (first.domain, first.op_type) == (second.domain, second.op_type) == ("org.pytorch.aten", "ATen")
    assert first.attributes["operator"].as_string() == "foo" and first.attributes["axis"].as_int() == 1
    assert second.attributes["overload_name"].as_string() == "int" and len(second.outputs) == 2


def test_what_g_has() -> None:
    seen: dict[str, Any] = {}

    def symbolic(g, x):
        seen.update(opset=g.opset, params=g.params_dict, kind=g.original_node.kind())
        (before,) = g.original_node.inputs()
        assert g.env == {before: x} and g.values_in_env == {x}
        seen["typed"] = [value.type().sizes() for value in g.original_node.inputs()]
        assert isinstance(g.graph, torch._C.Graph) and isinstance(g.block, torch._C.Block)
        assert next(iter(g.inputs())).debugName() == x.debugName()  # what g lacks is the graph's
        assert not x.isCompleteTensor() and [use.user.kind() for use in x.uses()] == []
        assert g.op("Constant", value_t=torch.ones(2)).isCompleteTensor()
        assert symbolic_helper._optional_input_placeholder_tensor(g).toIValue() is None
        y = g.op("Relu", x)
        assert y.node().kind() == "onnx::Relu" and next(iter(y.node().inputs())).debugName() == x.debugName()
        assert g.new_nodes[-1].kind() == "onnx::Relu"
        return y

    export(symbolic, 15)
    assert seen == {"opset": 15, "params": {}, "kind": "autograd::Identity", "typed": [None]}


def test_types_of_values_flow_through_what_is_made() -> None:
    def symbolic(g, x):
        assert x.type().varyingSizes() == [None, 4] and x.type().scalarType() == "Float"
        shape = g.op("Shape", x)
        assert shape.type().scalarType() == "Long" and shape.type().sizes() == [2]
        wide = g.op("Concat", x, x, axis_i=1)
        assert wide.type().varyingSizes() == [None, 8]
        assert g.op("Cast", x, to_i=onnx_exporter.TensorProtoDataType.DOUBLE).type().scalarType() == "Double"
        values, indices = g.op("TopK", wide, g.op("Constant", value_t=torch.tensor([2])), outputs=2)
        assert values.type().varyingSizes() == [None, 2] and indices.type().scalarType() == "Long"
        foreign = g.op("my::Foo", x).setType(shape.type())
        assert foreign.type().scalarType() == "Long"
        return g.op("Add", x, g.op("Cast", g.op("Add", g.op("Gather", foreign, 0), 1), to_i=1))

    program = export(symbolic)
    add = next(node for node in nodes(program) if node.op_type == "Add")
    assert add.inputs[1].const_value.dtype.name == "INT64"  # the number took the type that setType said


def test_a_value_given_back_by_setType() -> None:
    program = export(lambda g, x: g.op("Relu", x).setType(x.type()).setTypeAs(x))
    assert [node.op_type for node in nodes(program)] == ["Relu"]


def test_blocks() -> None:
    def symbolic(g, x):
        cond = g.op("Greater", g.op("ReduceMax", x, keepdims_i=0), g.op("Constant", value_t=torch.tensor(0.0)))
        made, (then, otherwise), node = add_op_with_blocks(g, "If", cond, n_blocks=2)
        assert node.kind() == "onnx::If"
        then.block.registerOutput(then.op("Identity", x))
        nested, (one, two), _ = add_op_with_blocks(otherwise, "If", otherwise.op("Not", cond), n_blocks=2)
        one.block.registerOutput(one.op("Relu", one.op("Neg", x)))
        two.block.registerOutput(two.op("Neg", x))
        otherwise.block.registerOutput(nested)
        return g.op("Mul", made, 2.0)

    program = export(symbolic)
    torch.testing.assert_close(program(X.abs()), X.abs() * 2)
    torch.testing.assert_close(program(-X.abs()), X.abs() * 2)


def test_graphs_as_attributes() -> None:
    def branch(kind: str) -> Any:
        graph = torch._C.Graph()
        constant = graph.insertNode(graph.create("onnx::Constant", [], 1))
        constant.t_("value", torch.ones(2, 2) * 3)
        graph.registerOutput(graph.insertNode(graph.create(kind, [constant.output()], 1)).output())
        return graph

    def symbolic(g, x):
        cond = g.op("Greater", g.op("ReduceMax", x, keepdims_i=0), g.op("Constant", value_t=torch.tensor(0.0)))
        made = g.op("If", cond, then_branch_g=branch("onnx::Neg"), else_branch_g=branch("onnx::Abs"))
        return g.op("Mul", x, g.op("ReduceMax", made, keepdims_i=0))

    program = export(symbolic)
    torch.testing.assert_close(program(X.abs()), X.abs() * -3)
    torch.testing.assert_close(program(-X.abs()), -X.abs() * 3)


def test_a_loop_that_stacks() -> None:
    def symbolic(g, x):
        true = g.op("Constant", value_t=torch.tensor(True))
        (last, rows), (body,), _ = add_op_with_blocks(g, "Loop", 4, true, x, outputs=2)
        index, cond, value = (body.block.addInputToBlock() for _ in range(3))
        value.setType(x.type())
        assert index.debugName()
        body.block.registerOutput(body.op("Identity", cond))
        body.block.registerOutput(body.op("Mul", value, 1.0))
        body.block.registerOutput(body.op("ReduceSum", value, keepdims_i=0))
        return g.op("Add", last, g.op("Sub", g.op("ReduceMax", rows, keepdims_i=0), g.op("ReduceMin", rows, keepdims_i=0)))

    torch.testing.assert_close(export(symbolic)(X), X)


def test_onnxscript_function_with_attributes_and_another_inside() -> None:
    from onnxscript.onnx_opset import opset15 as op

    domain = onnxscript.values.Opset("scripted", 1)

    @onnxscript.script(domain)
    def Twice(X):
        return op.Add(X, X)

    @onnxscript.script(domain)
    def Scaled(X, factor: float = 2.0):
        return op.Mul(Twice(X), op.CastLike(op.Constant(value_float=factor), X))

    program = export(lambda g, x: g.onnxscript_op(Scaled, x, factor_f=0.25), 15)
    assert {name for _, name, _ in program.model.functions} == {"Scaled", "Twice"}
    torch.testing.assert_close(program(X), X / 2)


@pytest.mark.parametrize("opset", [15, 18, 20, 21, 23])
def test_onnxscript_functions_with_numbers_at_other_opsets(opset: int) -> None:
    """A number is a Constant, which takes more types at opsets 19 and 21."""
    from onnxscript.onnx_opset import opset18 as op

    @onnxscript.script(onnxscript.values.Opset("scripted", 1))
    def Shifted(X):
        return op.Sub(op.LeakyRelu(op.Mul(X, 2.0), alpha=1.0), 0.5)

    program = export(lambda g, x: g.op("Div", g.op("Add", g.onnxscript_op(Shifted, x), 0.5), 2.0), opset)
    torch.testing.assert_close(program(X), X)


def test_an_onnxscript_function_whose_operator_changed_its_meaning() -> None:
    from onnxscript.onnx_opset import opset11 as op

    @onnxscript.script(onnxscript.values.Opset("scripted", 1))
    def Soft(X):
        return op.Softmax(X)

    assert "Softmax is another operator at opset 20" in raised(lambda g, x: g.onnxscript_op(Soft, x), opset=20)


def raised(symbolic: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(onnxexp.LoweringError) as caught:
        export(symbolic, **options)
    return str(caught.value)


BAD: list[tuple[str, Callable[..., Any], str]] = [
    ("two values for one", lambda g, x: (x, x), "returned 2 values; the node has 1 outputs"),
    ("no value", lambda g, x: "text", "returned 'text', which is no value"),
    ("None", lambda g, x: None, "returned None"),
    ("a number for a tensor", lambda g, x: 3, "returns [] where torch returns %identity"),
    ("a constant of another shape", lambda g, x: torch.ones(5), "returns [5] where torch returns %identity"),
    ("another shape", lambda g, x: g.op("Reshape", x, torch.tensor([4, 3])), "returns [4, 3] where torch returns %identity"),
    ("a list for a tensor", lambda g, x: [[x]], "which is no value"),
    ("a list value", lambda g, x: g.op("prim::ListConstruct", x, x), "where torch returns %identity"),
    ("another dtype", lambda g, x: g.op("Cast", x, to_i=7), "returns torch.int64 where torch returns torch.float32"),
    ("a node", lambda g, x: x.node(), "which is no value"),
    ("an array", lambda g, x: x.type().sizes() or x.type(), "which is no value"),
    ("an input that is none", lambda g, x: g.op("Relu", object()), "can be no input of an operator"),
    ("no name", lambda g, x: g.op("", x), "'' with 1 outputs is no operator"),
    ("two domains", lambda g, x: g.op("a::b::c", x), "is no operator; one is written Add or domain::Foo"),
    ("no outputs", lambda g, x: g.op("Relu", x, outputs=0), "'Relu' with 0 outputs"),
    ("too many outputs", lambda g, x: g.op("Relu", x, outputs=3)[0], "Relu has 1 outputs"),
    ("an onnxscript function that is none", lambda g, x: g.onnxscript_op(print, x), "print"),
    ("no suffix", lambda g, x: g.op("Elu", x, alpha=1.0), "'alpha' does not say its kind: write alpha_f"),
    ("unknown suffix", lambda g, x: g.op("Elu", x, alpha_q=1.0), "'alpha_q' does not say its kind"),
    ("a value that does not fit", lambda g, x: g.op("Elu", x, alpha_f="text"), "'text' does not fit the attribute alpha_f"),
    ("a dynamic attribute", lambda g, x: g.op("Elu", x, alpha_f=x), "the attribute alpha must be known at export"),
    ("an unknown attribute", lambda g, x: g.op("Elu", x, beta_f=1.0), "beta"),
    ("an exception", lambda g, x: {}["key"], "KeyError"),
    ("too many inputs", lambda g, x: g.op("Relu", x, x), "Relu"),
    ("a wrong dtype", lambda g, x: g.op("Not", x), "Not does not take torch.float32"),
]


@pytest.mark.parametrize(("symbolic", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD])
def test_bad_symbolics_are_named(symbolic: Callable[..., Any], message: str) -> None:
    text = raised(symbolic)
    assert message in text
    assert re.search(rf"the symbolic <lambda> at .*test_g\.py:{symbolic.__code__.co_firstlineno}", text), text
    assert "return Identity.apply(x)" in text and "autograd::Identity" in text  # the user's line and node


@pytest.mark.parametrize("alive", [False, True], ids=["the graph is gone", "the graph is there"])
def test_a_value_of_another_graph(alive: bool) -> None:
    kept: list[Any] = []

    def keeps(g, x):
        kept.extend([g.op("Relu", x), g.graph if alive else None])
        return kept[0]

    export(keeps)
    assert "Add was given a value of another graph" in raised(lambda g, x: g.op("Add", x, kept[0]))
    assert "a value of another graph" in raised(lambda g, x: kept[0])


def test_wrong_arguments_of_the_symbolic() -> None:
    assert "missing 1 required positional argument" in raised(lambda g, x, y: x)


def test_an_opset_that_cannot() -> None:
    def symbolic(g, x):
        return g.op("GridSample", x, x)

    with pytest.raises(onnxexp.OpsetError) as caught:
        export(symbolic, 13, torch.randn(1, 2, 2, 2))
    assert caught.value.first_opset == 16
