"""What is written of a model without its weights is what onnx-ir writes, of the rarest parts too."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest
import torch

from onnxexp.serialize.messages import skeleton
from onnxexp.tensors import TorchTensor


def _model() -> ir.Model:
    """Inputs x and number, nodes of all kinds of attributes, one without an output at its end, one with a graph."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, "batch", None]))
    number = ir.Value(name="number", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    said = {"b": "2", "a": "1"}
    attributes = [
        ir.AttrInt64("i", -3),
        ir.AttrInt64s("ints", [1, 2]),
        ir.AttrInt64s("none", []),
        ir.AttrFloat32("f", 0.1),
        ir.AttrFloat32s("floats", [0.5]),
        ir.AttrString("s", "text"),
        ir.AttrStrings("strings", ["a", "b"]),
        ir.AttrTensor("t", TorchTensor(torch.ones(2), "t")),
    ]
    first = ir.Node("", "First", [x, None, number], attributes, num_outputs=3, name="first", metadata_props=dict(said))
    for output, name in zip(first.outputs, ("one", "two", ""), strict=True):
        output.name = name
    first.outputs[0].type, first.outputs[0].shape = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)), ir.Shape([None])
    inner = ir.Node("", "Inner", [x], name="inner")
    body = ir.Graph([], inner.outputs, nodes=[inner], name="body")
    second = ir.Node("some.domain", "Second", first.outputs[:2], [ir.AttrGraph("g", body)], metadata_props=dict(said))
    third = ir.Node("", "Third", second.outputs, name="third", metadata_props={"c": "3"})
    third.outputs[0].type, third.outputs[0].shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([4])
    last = ir.Node("", "Last", third.outputs, name="last")
    outputs = [*last.outputs, first.outputs[1]]
    graph = ir.Graph(
        [x, number], outputs, nodes=[first, second, third, last], opset_imports={"": 20, "some.domain": 1}, name="main"
    )
    return ir.Model(graph, ir_version=10, producer_name="producer", metadata_props={"z": "26", "y": "25"})


def _value(model: ir.Model) -> ir.Value:
    return model.graph[2].outputs[0]


def _on_model(model: ir.Model) -> None:
    model.producer_version, model.domain, model.model_version, model.doc_string = "1", "domain", 7, "text"


def _on_graph(model: ir.Model) -> None:
    model.graph.doc_string = "text"
    model.graph.metadata_props["k"] = "v"
    model.graph.name = None


def _on_node(model: ir.Model) -> None:
    model.graph[0].doc_string = "text"
    model.graph[1].overload = "overload"
    model.graph[2].attributes.add(ir.Attr("i", ir.AttributeType.INT, 1, doc_string="text"))


def _on_value(model: ir.Model) -> None:
    _value(model).doc_string = "text"
    model.graph.outputs[0].metadata_props["k"] = "v"


def _untyped(model: ir.Model) -> None:
    _value(model).type = None
    _value(model).shape = None


def _denoted(model: ir.Model) -> None:
    _value(model).shape = ir.Shape([2, 3], denotations=[None, "DATA_CHANNEL"])
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.FLOAT, denotation="IMAGE")


def _quantized(model: ir.Model) -> None:
    for value in (model.graph.inputs[0], _value(model), model.graph.outputs[0]):
        value.meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "z"}


def _function(model: ir.Model) -> None:
    y = ir.Value(name="y")
    attribute = ir.RefAttr("alpha", "beta", ir.AttributeType.FLOAT)
    node = ir.Node("", "Elu", [y], [attribute], name="elu")
    parameter = ir.Attr("beta", ir.AttributeType.FLOAT, 1.0)
    graph = ir.Graph([y], node.outputs, nodes=[node], opset_imports={"": 20})
    function = ir.Function("some.domain", "Second", graph=graph, attributes=[parameter])
    model.functions[function.identifier()] = function


def _reference(model: ir.Model) -> None:
    model.graph[3].attributes.add(ir.RefAttr("alpha", "beta", ir.AttributeType.FLOAT))


def _inside(model: ir.Model) -> None:
    body = model.graph[1].attributes["g"].as_graph()
    body.doc_string = "text"
    body[0].attributes.add(ir.AttrGraph("g", ir.Graph([], [], nodes=[], name="innermost")))


def _weight_inside(model: ir.Model) -> None:
    weight = TorchTensor(torch.ones(3), "weight")
    value = ir.Value(name="weight", type=ir.TensorType(weight.dtype), shape=weight.shape, const_value=weight)
    model.graph[1].attributes["g"].as_graph().register_initializer(value)


CHANGES = [
    *(_on_model, _on_graph, _on_node, _on_value, _untyped, _denoted, _quantized, _function, _reference),
    *(_inside, _weight_inside),
]


@pytest.mark.parametrize("change", [lambda _: None, *CHANGES])
def test_it_is_what_onnx_ir_writes(change: Callable[[ir.Model], None]) -> None:
    model = _model()
    change(model)
    assert skeleton(model).SerializeToString(deterministic=True) == ir.to_proto(model).SerializeToString(deterministic=True)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_shows(change: Callable[[ir.Model], None]) -> None:
    model = _model()
    change(model)
    assert skeleton(model) != skeleton(_model())


def test_what_does_not_go_into_a_message_is_told_by_onnx_ir() -> None:
    model = _model()
    model.graph[0].attributes.add(ir.AttrInt64("i", 1 << 70))
    with pytest.raises(ir.serde.SerdeError, match="serialize_model_into"):
        skeleton(model)


def test_weights_are_left_out() -> None:
    model = _model()
    weight = TorchTensor(torch.ones(3), "weight")
    model.graph.register_initializer(
        ir.Value(name="weight", type=ir.TensorType(weight.dtype), shape=weight.shape, const_value=weight)
    )
    assert skeleton(model) == skeleton(_model())
