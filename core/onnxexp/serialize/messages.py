"""A model as a protobuf message, without the initializers of its main graph.

What nearly every node and value has is written here, in few calls: onnx-ir's own writer takes half as long again. What is rare is
left to it, and so is a model that does not go into a message: it tells what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import onnx
import onnx_ir as ir

from onnxexp.ownership import owned

__all__ = ["skeleton"]

_PLAIN = {
    ir.AttributeType.INT,
    ir.AttributeType.INTS,
    ir.AttributeType.FLOAT,
    ir.AttributeType.FLOATS,
    ir.AttributeType.GRAPH,
}
"""The attributes that are written here."""
_QUANTIZATION = "quant_parameter_tensor_names"
"""The key under which onnx-ir keeps the annotation of a quantized value."""


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Everything but the initializers of the main graph. Raises onnx-ir's SerdeError for what does not go into a message."""
    if model.functions or model.device_configurations:
        return _by_onnx_ir(model)
    proto = onnx.ModelProto()
    proto.ir_version = model.ir_version
    for fact in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        value = getattr(model, fact)
        if value:
            setattr(proto, fact, value)
    for domain, version in model.opset_imports.items():
        imported = proto.opset_import.add()
        imported.domain, imported.version = domain, version
    _write_pairs(proto.metadata_props, model.metadata_props)
    try:
        _write_graph(proto.graph, model.graph, model.ir_version)
    except (TypeError, ValueError):
        return _by_onnx_ir(model)
    return proto


def _by_onnx_ir(model: ir.Model) -> onnx.ModelProto:
    graph = owned(model).graph  # it asks the values what they are there
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        name=graph.name,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        metadata_props=graph.metadata_props,
    )
    # onnx_ir documents a model over a view; its annotation asks for a Graph.
    bare = ir.Model(
        cast(ir.Graph, view),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=list(model.functions.values()),
        metadata_props=model.metadata_props,
        device_configurations=model.device_configurations,
    )
    return ir.serde.serialize_model(bare)


def _write_graph(proto: onnx.GraphProto, graph: ir.Graph, ir_version: int) -> None:
    if graph.name:
        proto.name = graph.name
    if graph.doc_string:
        proto.doc_string = graph.doc_string
    for value in graph.inputs[:]:
        _write_value(proto.input.add(), value)
        _annotate(proto, value)
    outputs = set(graph.outputs[:])
    metadata: Mapping[str, str] = {}
    said = onnx.NodeProto()
    for node in graph:
        if node.metadata_props != metadata:  # as the node before has it, mostly: one copy takes the place of many calls
            metadata, said = node.metadata_props, onnx.NodeProto()
            _write_pairs(said.metadata_props, metadata)
        _write_node(proto.node.add(), node, said, ir_version)
        for value in node.outputs:
            if value not in outputs:
                _annotate(proto, value)
                if value.name and (value.type is not None or value.shape is not None or value.metadata_props or value.doc_string):
                    _write_value(proto.value_info.add(), value)
    for value in graph.outputs[:]:
        _write_value(proto.output.add(), value)
        _annotate(proto, value)
    _write_pairs(proto.metadata_props, graph.metadata_props)


def _write_node(proto: onnx.NodeProto, node: ir.Node, said: onnx.NodeProto, ir_version: int) -> None:
    """`said` has the node's metadata, and nothing else."""
    if node.overload or node.doc_string or node.device_configurations:
        ir.serde.serialize_node_into(proto, node, model_ir_version=ir_version)
        return
    proto.CopyFrom(said)
    proto.op_type = node.op_type
    if node.domain:
        proto.domain = node.domain
    if node.name:
        proto.name = node.name
    proto.input.extend(["" if value is None else value.name for value in node.inputs])
    outputs = [value.name or "" for value in node.outputs]
    while outputs and not outputs[-1]:
        outputs.pop()
    proto.output.extend(outputs)
    for attribute in node.attributes.data.values():  # the view of the container itself looks each up in Python
        _write_attribute(proto.attribute.add(), attribute, ir_version)


def _write_attribute(proto: onnx.AttributeProto, attribute: ir.Attr, ir_version: int) -> None:
    kind = attribute.type
    if attribute.is_ref():
        ir.serde.serialize_reference_attribute_into(proto, attribute)
        return
    if attribute.doc_string or kind not in _PLAIN or (kind is ir.AttributeType.GRAPH and attribute.value.initializers):
        ir.serde.serialize_attribute_into(proto, attribute)
        return
    proto.name, proto.type = attribute.name, kind  # type: ignore[assignment] # the numbers are the same
    if kind is ir.AttributeType.INT:
        proto.i = attribute.value
    elif kind is ir.AttributeType.INTS:
        proto.ints.extend(attribute.value)
    elif kind is ir.AttributeType.FLOAT:
        proto.f = attribute.value
    elif kind is ir.AttributeType.FLOATS:
        proto.floats.extend(attribute.value)
    else:
        _write_graph(proto.g, attribute.value, ir_version)


def _write_value(proto: onnx.ValueInfoProto, value: ir.Value) -> None:
    type_, shape = value.type, value.shape
    if type(type_) is not ir.TensorType or type_.denotation or value.metadata_props or value.doc_string:
        ir.serde.serialize_value_into(proto, value)
        return
    proto.name = cast(str, value.name)
    tensor = proto.type.tensor_type
    tensor.elem_type = type_.dtype
    if shape is not None:
        sizes = tensor.shape
        sizes.SetInParent()  # that of a number too, which has no dimensions
        for axis, size in enumerate(shape):
            dim = sizes.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif size.value is not None:
                dim.dim_param = size.value
            denotation = shape.get_denotation(axis)
            if denotation:
                dim.denotation = denotation


def _annotate(proto: onnx.GraphProto, value: ir.Value) -> None:
    names = value.meta.get(_QUANTIZATION) if value.meta else None
    if names:
        _write_pairs(proto.quantization_annotation.add(tensor_name=value.name).quant_parameter_tensor_names, names)


def _write_pairs(field: Any, pairs: Mapping[str, str]) -> None:
    for key in sorted(pairs):
        pair = field.add()
        pair.key, pair.value = key, pairs[key]
