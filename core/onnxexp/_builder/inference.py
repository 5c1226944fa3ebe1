"""Infer dtypes and shapes with ONNX, one node at a time and on first use."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
_READING_FLOATS = frozenset(["Range", "Resize", "Upsample"])
"""The operators whose inference reads floating-point contents. For others, layers with other biases are one call."""


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
    floats = node.op_type in _READING_FLOATS
    inputs = tuple([None if value is None else _known(state, value, floats) for value in node.inputs])
    if _UNKNOWN in inputs:
        return
    attributes = tuple([ir.serde.serialize_attribute(attribute).SerializeToString() for attribute in node.attributes.values()])
    call = _Call(node.domain, node.op_type, inputs, attributes, len(node.outputs), tuple(state.opset_imports.items()))
    try:
        if spec is None or not spec.schema.has_type_and_shape_inference_function:  # LessOrEqual-12 has a body instead
            inferred = _through_functions(state, call)
        else:
            inferred = _inferred(call)
    except (onnx.shape_inference.InferenceError, RuntimeError, KeyError) as error:
        raise LoweringError(f"ONNX's inference refuses the {node.op_type} that was built: {error}") from error
    for output, found in zip(node.outputs, inferred, strict=True):
        tensor = state.tensors.get(output)
        if tensor is not None and found is not None:
            if node.op_type == "Slice" and state.opset_imports.get("") == 10 and (axes := call.contents(3)) is not None:
                found = found.renamed(axes, state)
            _take(state, tensor, found)


class _Input(NamedTuple):
    """What is known of an input.

    Attributes:
        dtype, sizes: Those of a tensor.
        other: The serialized type of anything else.
        contents: A small constant, serialized.
    """

    dtype: int
    sizes: tuple[int | str, ...] | None = None
    other: bytes = b""
    contents: bytes = b""

    def type(self) -> onnx.TypeProto:
        if self.other:
            return onnx.TypeProto.FromString(self.other)  # type: ignore[no-any-return]
        return onnx.helper.make_tensor_type_proto(self.dtype, self.sizes)


_UNKNOWN = _Input(onnx.TensorProto.UNDEFINED)


class _Found(NamedTuple):
    """An inferred type, and the sizes in it: None for one without a name."""

    type: onnx.TypeProto
    sizes: tuple[int | str | None, ...] | None

    @classmethod
    def of(cls, type_: onnx.TypeProto) -> _Found:
        if not type_.tensor_type.HasField("shape"):
            return cls(type_, None)
        dims = type_.tensor_type.shape.dim
        return cls(type_, tuple([dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]))

    def renamed(self, axes: Sequence[int], state: GraphState) -> _Found:
        """Rename the sizes that ONNX infers for the axes cut by Slice at opset 10.

        ONNX Runtime infers one symbol for different sizes wherever the file has no name, and reuses memory of the wrong size.
        """
        sizes = list(self.sizes or ())
        for axis in axes:
            if isinstance(sizes[axis], str):
                sizes[axis] = state.names.unique("cut")
        return _Found(self.type, tuple(sizes))


class _Call(NamedTuple):
    """A node without its names, the key of its inferred types.

    Attributes:
        inputs: None for an input that is left out.
        attributes: Serialized.
        outputs: Their number.
        imports: The version of each operator domain.
    """

    domain: str
    op_type: str
    inputs: tuple[_Input | None, ...]
    attributes: tuple[bytes, ...]
    outputs: int
    imports: tuple[tuple[str, int], ...]

    def contents(self, index: int) -> list[int] | None:
        """Return the elements of an input, or None for one that is no small constant."""
        known = self.inputs[index] if index < len(self.inputs) else None
        if known is None or not known.contents:
            return None
        return [int(each) for each in onnx.numpy_helper.to_array(onnx.TensorProto.FromString(known.contents)).flat]

    def node(self) -> onnx.NodeProto:
        """Create the node; its inputs are ``i0``, ``i1``, …, its outputs ``o0``, …."""
        proto = onnx.NodeProto(op_type=self.op_type, domain=self.domain)
        proto.input.extend("" if known is None else f"i{index}" for index, known in enumerate(self.inputs))
        proto.output.extend(f"o{index}" for index in range(self.outputs))
        proto.attribute.extend(onnx.AttributeProto.FromString(attribute) for attribute in self.attributes)
        return proto

    def types(self) -> dict[str, onnx.TypeProto]:
        return {f"i{index}": known.type() for index, known in enumerate(self.inputs) if known is not None}

    def opset_imports(self) -> list[onnx.OperatorSetIdProto]:
        return [onnx.helper.make_opsetid(domain, version) for domain, version in self.imports]

    def found(self, types: Mapping[str, onnx.TypeProto]) -> tuple[_Found | None, ...]:
        """Return the types of the outputs in order, None for those without one."""
        names = [f"o{index}" for index in range(self.outputs)]
        return tuple([_Found.of(types[name]) if name in types else None for name in names])


@functools.lru_cache(maxsize=4096)  # the layers of a transformer have the same calls
def _inferred(call: _Call) -> tuple[_Found | None, ...]:
    """Infer the output types of an operator that ONNX defines."""
    spec = operator(call.domain, call.op_type, dict(call.imports).get(call.domain, 1))
    assert spec is not None
    inputs = [(f"i{index}", known.contents) for index, known in enumerate(call.inputs) if known is not None and known.contents]
    data = {name: onnx.TensorProto.FromString(contents) for name, contents in inputs}
    imports = call.opset_imports()
    return call.found(
        onnx.shape_inference.infer_node_outputs(spec.schema, call.node(), call.types(), data, opset_imports=imports)
    )


def _through_functions(state: GraphState, call: _Call) -> tuple[_Found | None, ...]:
    """Infer the output types of a function, the model's own or ONNX's."""
    node, inputs = call.node(), [onnx.helper.make_value_info(name, type_) for name, type_ in call.types().items()]
    graph = onnx.helper.make_graph([node], "call", inputs, [onnx.ValueInfoProto(name=name) for name in node.output])
    functions = [ir.to_proto(each) for each in state.functions.values()]
    imports = call.opset_imports()
    inferred = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, functions=functions, opset_imports=imports))
    return call.found({each.name: each.type for each in inferred.graph.output if each.type.WhichOneof("value")})


def _known(state: GraphState, value: ir.Value, floats: bool) -> _Input:
    """Describe an input; `floats` are floating-point contents that are read."""
    constant = value.const_value
    if isinstance(constant, TorchTensor):
        read = constant.torch.numel() <= _DATA_LIMIT and (floats or not constant.torch.is_floating_point())
        contents = ir.serde.serialize_tensor(constant).SerializeToString() if read else b""
        return _Input(int(constant.dtype), tuple(constant.torch.shape), contents=contents)
    if (tensor := state.tensors.get(value)) is not None and tensor.known_dtype is not None:
        return _Input(int(onnx_dtype(tensor.known_dtype)), _texts(tensor.known_shape))
    if value.type is None:
        return _UNKNOWN
    other = ir.serde.serialize_type(value.type)
    if tensor is not None and tensor.known_shape is not None:
        ir.serde.serialize_shape_into(other, ir.Shape(_texts(tensor.known_shape) or ()))
    return _Input(onnx.TensorProto.UNDEFINED, other=other.SerializeToString())


def _take(state: GraphState, tensor: Tensor, found: _Found) -> None:
    dtype, sizes, elements = None, None, found.type.tensor_type.elem_type
    if elements in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        tensor.value.type = ir.serde.deserialize_type_proto_for_type(found.type)  # a sequence or strings: no torch dtype
    elif tensor.known_dtype is None:
        dtype = torch_dtype(elements)
    if tensor.known_shape is None and found.sizes is not None:
        sizes = tuple([state.fresh_dim() if size is None else to_dim(size) for size in found.sizes])
    tensor.fill(TensorType(dtype, sizes))


def _texts(sizes: Sequence[Dim] | None) -> tuple[int | str, ...] | None:
    return None if sizes is None else tuple([size if isinstance(size, int) else size.text for size in sizes])
