"""dtype and shape of a value that symbolics made on the way, by ONNX's own inference on the one node, when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
import torch

from onnxexp.dtypes import from_onnx, to_onnx
from onnxexp.graph import Dim
from onnxexp.schemas import operator
from onnxexp.shapes import SEVERAL, Shape, shape_of
from onnxexp.tensors import TorchTensor

if TYPE_CHECKING:
    from onnxexp.builder import Builder
    from onnxexp.values import Tensor

__all__ = ["infer"]

_DATA_LIMIT = 64
"""Elements of a constant up to which its contents are shown to the inference (target shapes, axes, …)."""


def infer(op: Builder, tensor: Tensor) -> None:
    """Set what can be told of `tensor` and the other outputs of its node; what cannot stays None."""
    value = tensor._value
    node = value.producer() if value is not None else None
    pending = [] if node is None or node in op.state.inferred else [node]
    while pending:  # no recursion: a chain of nodes may be long
        node = pending[-1]
        ruled = node in op.state.inferred or _by_rule(op, node)
        before = [] if ruled else [made for each in node.inputs if each is not None and (made := _unfinished(op, each))]
        if before:
            pending.extend(before)
            continue
        pending.pop()
        op.state.inferred.add(node)
        if not ruled:
            _infer_node(op, node)


def _unfinished(op: Builder, value: ir.Value) -> ir.Node | None:
    """The node that has to be looked at before one that takes this value."""
    tensor = op.state.tensors.get(value)
    if tensor is None or (tensor._dtype is not None and tensor._shape is not None):
        return None
    node = value.producer()
    return None if node is None or node in op.state.inferred else node


def _by_rule(op: Builder, node: ir.Node) -> bool:
    """Is one of our own rules enough? The dtypes are known already then: the schema tells them of most operators."""
    unknown = []
    for output in node.outputs:
        tensor = op.state.tensors.get(output)
        if tensor is None or tensor._dtype is None:
            return False
        if tensor._shape is None:
            unknown.append(tensor)
    if not unknown:
        return True
    if len(node.outputs) > 1 and node.op_type not in SEVERAL:
        return False
    shapes: list[Shape] = []
    constants: list[torch.Tensor | None] = []
    for value in node.inputs:
        shape, contents = ((), None) if value is None else _known(op, value)
        if shape is None:
            return False
        shapes.append(shape)
        constants.append(contents)
    shape = shape_of(node, op.opset, shapes, constants)
    for tensor in unknown:
        tensor._shape = shape
    return shape is not None


def _known(op: Builder, value: ir.Value) -> tuple[Shape | None, torch.Tensor | None]:
    """The shape of a value, and its contents where it is a constant."""
    constant = value.const_value
    if constant is not None and isinstance(constant, TorchTensor):  # that None is no instance takes Python long to find out
        return tuple(constant.torch.shape), constant.torch
    tensor = op.state.tensors.get(value)
    return (None if tensor is None else tensor._shape), None


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
    """The types of what a call of one of the model's functions gives."""
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
        tensor.value.type = ir.serde.deserialize_type_proto_for_type(found)  # torch has no dtype for it: a sequence, strings
    elif tensor._dtype is None:
        tensor._dtype = from_onnx(found.tensor_type.elem_type)
    if tensor._shape is None and found.tensor_type.HasField("shape"):
        tensor._shape = tuple(_dim(op, dim) for dim in found.tensor_type.shape.dim)


def _dim(op: Builder, dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or op.fresh_dim()
