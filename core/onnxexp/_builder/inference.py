"""Infer dtypes and shapes with ONNX, one node at a time and on first use."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnxexp._builder.dtypes import onnx_dtype, torch_dtype
from onnxexp._builder.graph_state import GraphState
from onnxexp._builder.onnx_schemas import operator
from onnxexp._builder.tensor import Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import LoweringError
from onnxexp._neutral_graph import Dim, TensorType, to_dim

_DATA_LIMIT = 64
"""Elements up to which the inference gets the contents of a constant: target shapes, axes, …"""


def infer(state: GraphState, tensor: Tensor) -> None:
    """Infer the missing dtypes and shapes of a tensor's node, after those before it.

    Types that ONNX cannot infer stay None.
    """
    value = tensor.known_value
    node = None if value is None else _uninferred_producer(state, value)
    pending = [] if node is None else [node]
    while pending:  # no recursion: a chain of nodes may be longer than Python's stack
        node = pending[-1]
        producers = [_uninferred_producer(state, value) for value in node.inputs if value is not None]
        if before := [producer for producer in producers if producer is not None]:
            pending.extend(before)
            continue
        pending.pop()
        if node not in state.inferred:
            state.inferred.add(node)
            _infer_node(state, node)


def _uninferred_producer(state: GraphState, value: ir.Value) -> ir.Node | None:
    """Return the node to infer before `value`'s dtype and shape can be read, or None."""
    if (tensor := state.tensors.get(value)) is None or (tensor.known_dtype is not None and tensor.known_shape is not None):
        return None
    node = value.producer()
    return None if node is None or node in state.inferred else node


def _infer_node(state: GraphState, node: ir.Node) -> None:
    spec = operator(node.domain, node.op_type, state.opset_imports.get(node.domain, 1))
    function = spec is None and node.op_identifier() in state.functions
    if (spec is None and not function) or any(each.type == ir.AttributeType.GRAPH for each in node.attributes.values()):
        return
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index, value in enumerate(node.inputs):
        proto.input.append("" if value is None else f"i{index}")
        if value is not None:
            _describe(state, value, f"i{index}", types, data)
    if len(types) < sum(value is not None for value in node.inputs):
        return
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in state.opset_imports.items()]
    try:
        if spec is None or not spec.schema.has_type_and_shape_inference_function:  # LessOrEqual-12 has a body instead
            inferred = _through_functions(state, proto, types, imports)
        else:
            inferred = onnx.shape_inference.infer_node_outputs(spec.schema, proto, types, data, opset_imports=imports)
    except (onnx.shape_inference.InferenceError, RuntimeError, KeyError) as error:
        raise LoweringError(f"ONNX's inference refuses the {node.op_type} that was built: {error}") from error
    for index, output in enumerate(node.outputs):
        tensor = state.tensors.get(output)
        found = inferred.get(f"o{index}")
        if tensor is not None and found is not None:
            if node.op_type == "Slice" and state.opset_imports.get("") == 10 and "i3" in data:
                _rename_cut_axes(state, found, data["i3"])
            _take(state, tensor, found)


def _rename_cut_axes(state: GraphState, found: onnx.TypeProto, axes: onnx.TensorProto) -> None:
    """Rename the sizes that ONNX infers for the axes cut by Slice at opset 10.

    ONNX Runtime infers one symbol for different sizes wherever the file has no name, and reuses memory of the wrong size.
    """
    for dim in [found.tensor_type.shape.dim[axis] for axis in onnx.numpy_helper.to_array(axes)]:
        if dim.dim_param:
            dim.dim_param = state.names.unique("cut")


def _through_functions(
    state: GraphState, call: onnx.NodeProto, types: dict[str, onnx.TypeProto], imports: list[onnx.OperatorSetIdProto]
) -> dict[str, onnx.TypeProto]:
    """Infer the output types of a call of a model-local function or function operator."""
    inputs = [onnx.helper.make_value_info(name, type_) for name, type_ in types.items()]
    graph = onnx.helper.make_graph([call], "call", inputs, [onnx.ValueInfoProto(name=name) for name in call.output])
    functions = [ir.to_proto(each) for each in state.functions.values()]
    inferred = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, functions=functions, opset_imports=imports))
    return {each.name: each.type for each in inferred.graph.output if each.type.WhichOneof("value")}


def _describe(
    state: GraphState, value: ir.Value, name: str, types: dict[str, onnx.TypeProto], data: dict[str, onnx.TensorProto]
) -> None:
    constant = value.const_value
    if isinstance(constant, TorchTensor):
        dtype, shape = int(constant.dtype), tuple(constant.torch.shape)
        if constant.torch.numel() <= _DATA_LIMIT:
            data[name] = ir.serde.serialize_tensor(constant)
        types[name] = onnx.helper.make_tensor_type_proto(dtype, shape)
        return
    if (tensor := state.tensors.get(value)) is not None and tensor.known_dtype is not None:
        types[name] = onnx.helper.make_tensor_type_proto(int(onnx_dtype(tensor.known_dtype)), _texts(tensor.known_shape))
    elif value.type is not None:
        types[name] = ir.serde.serialize_type(value.type)
        if tensor is not None and tensor.known_shape is not None:
            ir.serde.serialize_shape_into(types[name], ir.Shape(_texts(tensor.known_shape) or ()))


def _take(state: GraphState, tensor: Tensor, found: onnx.TypeProto) -> None:
    dtype = None
    if found.tensor_type.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        tensor.value.type = ir.serde.deserialize_type_proto_for_type(found)  # a sequence or strings: no torch dtype
    elif tensor.known_dtype is None:
        dtype = torch_dtype(found.tensor_type.elem_type)
    sizes = None
    if tensor.known_shape is None and found.tensor_type.HasField("shape"):
        dims = found.tensor_type.shape.dim
        sizes = tuple(
            dim.dim_value if dim.HasField("dim_value") else to_dim(dim.dim_param) if dim.dim_param else state.fresh_dim()
            for dim in dims
        )
    tensor.fill(TensorType(dtype, sizes))


def _texts(sizes: Sequence[Dim] | None) -> list[int | str] | None:
    return None if sizes is None else [size if isinstance(size, int) else size.text for size in sizes]
