"""Infer dtypes and shapes of intermediate values with ONNX's own inference, one node at a time and on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from onnxexp.builder.dtypes import from_onnx, to_onnx
from onnxexp.builder.onnx_schemas import operator
from onnxexp.builder.torch_tensor import TorchTensor
from onnxexp.graph import Dim

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder
    from onnxexp.builder.tensor import Tensor

__all__ = ["infer"]

_DATA_LIMIT = 64
"""Elements up to which the inference gets the contents of a constant: target shapes, axes, …"""


def infer(op: Builder, tensor: Tensor) -> None:
    """Set the missing dtypes and shapes of a node's outputs; those that ONNX cannot infer stay None."""
    node = None if tensor._value is None else _uninferred_producer(op, tensor._value)
    pending = [] if node is None else [node]
    while pending:  # no recursion: a chain of nodes may be longer than Python's stack
        node = pending[-1]
        producers = [_uninferred_producer(op, value) for value in node.inputs if value is not None]
        before = [producer for producer in producers if producer is not None]
        if before:
            pending.extend(before)
            continue
        pending.pop()
        if node not in op.state.inferred:
            op.state.inferred.add(node)
            _infer_node(op, node)


def _uninferred_producer(op: Builder, value: ir.Value) -> ir.Node | None:
    """The node to infer before the dtype and shape of `value` can be read, None where there is none."""
    tensor = op.state.tensors.get(value)
    if tensor is None or (tensor._dtype is not None and tensor._shape is not None):
        return None
    node = value.producer()
    return None if node is None or node in op.state.inferred else node


def _infer_node(op: Builder, node: ir.Node) -> None:
    spec = operator(node.domain, node.op_type, op.state.opset_imports.get(node.domain, 1))
    function = spec is None and node.op_identifier() in op.state.functions
    if (spec is None and not function) or any(each.type == ir.AttributeType.GRAPH for each in node.attributes.values()):
        return
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index, value in enumerate(node.inputs):
        proto.input.append("" if value is None else f"i{index}")
        if value is not None:
            _describe(op, value, f"i{index}", types, data)
    if len(types) < sum(value is not None for value in node.inputs):
        return
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in op.state.opset_imports.items()]
    try:
        if spec is None:
            inferred = _through_functions(op, proto, types, imports)
        else:
            inferred = onnx.shape_inference.infer_node_outputs(spec.schema, proto, types, data, opset_imports=imports)
    except (onnx.shape_inference.InferenceError, RuntimeError, KeyError) as error:
        raise op.error(f"ONNX's inference refuses the {node.op_type} that was built: {error}") from error
    for index, output in enumerate(node.outputs):
        tensor = op.state.tensors.get(output)
        found = inferred.get(f"o{index}")
        if tensor is not None and found is not None:
            _take(op, tensor, found)


def _through_functions(
    op: Builder, call: onnx.NodeProto, types: dict[str, onnx.TypeProto], imports: list[onnx.OperatorSetIdProto]
) -> dict[str, onnx.TypeProto]:
    """The output types of a call of a model-local function."""
    inputs = [onnx.helper.make_value_info(name, type_) for name, type_ in types.items()]
    graph = onnx.helper.make_graph([call], "call", inputs, [onnx.ValueInfoProto(name=name) for name in call.output])
    functions = [ir.to_proto(each) for each in op.state.functions.values()]
    inferred = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, functions=functions, opset_imports=imports))
    return {each.name: each.type for each in inferred.graph.output if each.type.WhichOneof("value")}


def _describe(
    op: Builder, value: ir.Value, name: str, types: dict[str, onnx.TypeProto], data: dict[str, onnx.TensorProto]
) -> None:
    constant = value.const_value
    if isinstance(constant, TorchTensor):
        dtype, shape = int(constant.dtype), tuple(constant.torch.shape)
        if constant.torch.numel() <= _DATA_LIMIT:
            data[name] = ir.serde.serialize_tensor(constant)
        types[name] = onnx.helper.make_tensor_type_proto(dtype, shape)
        return
    tensor = op.state.tensors.get(value)
    if tensor is not None and tensor._dtype is not None:
        types[name] = onnx.helper.make_tensor_type_proto(int(to_onnx(tensor._dtype)), tensor._shape)
    elif value.type is not None:
        types[name] = ir.serde.serialize_type(value.type)
        if tensor is not None and tensor._shape is not None:
            ir.serde.serialize_shape_into(types[name], ir.Shape(tensor._shape))


def _take(op: Builder, tensor: Tensor, found: onnx.TypeProto) -> None:
    if found.tensor_type.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        tensor.value.type = ir.serde.deserialize_type_proto_for_type(found)  # a sequence or strings: no torch dtype
    elif tensor._dtype is None:
        tensor._dtype = from_onnx(found.tensor_type.elem_type)
    if tensor._shape is None and found.tensor_type.HasField("shape"):
        tensor._shape = tuple(_dim(op, dim) for dim in found.tensor_type.shape.dim)


def _dim(op: Builder, dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or op.fresh_dim()
