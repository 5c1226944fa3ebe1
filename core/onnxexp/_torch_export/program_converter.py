"""Convert an ExportedProgram, with its higher-order operators, to a neutral graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch import predispatch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxexp._capture.source_lines import node_location
from onnxexp._capture.torch_state import silence_torch_export, silence_warnings, torch_mode
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Value
from onnxexp._torch_export.fx_converter import Conversion, Converter


def to_graph(program: ExportedProgram, dim_of: Callable[[Any], Dim]) -> Graph:
    """Convert a program's graph, with each call bound to its torch schema.

    The graph's inputs are the user's inputs, one Value for each flattened argument, constants included.

    Args:
        program: The program.
        dim_of: Returns a size of torch's as an expression of names.

    Raises:
        CaptureError: The program contains something that a neutral graph cannot represent.
    """
    graph = Graph()
    converter = Converter(program.graph_module, graph, dim_of, CONVERSIONS)
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    tensors: dict[str, Any] = {**program.constants, **program.state_dict}
    for node in program.graph.find_nodes(op="placeholder"):
        spec = kinds[node.name]
        value = converter.new(node.name, node.meta.get("val"))
        if spec.kind is InputKind.USER_INPUT:
            converter.env[node] = value
            graph.inputs.append(value)
            if isinstance(spec.arg, ConstantArgument):
                converter.env[node] = spec.arg.value
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            value.name = spec.target or node.name
            graph.params[value] = tensors[value.name].detach()
            converter.env[node] = value
        else:
            raise CaptureError(
                f"the captured program takes {spec.target or node.name}, a {spec.kind.name}, which ONNX cannot represent"
            )
    converter.run()
    returned = zip(graph.outputs, program.graph_signature.output_specs, strict=True)
    graph.outputs = [output for output, spec in returned if spec.kind is OutputKind.USER_OUTPUT]
    return graph


def mutated_names(program: ExportedProgram) -> list[str]:
    """Return the inputs and buffers that a decomposed program updates."""
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return [spec.target or spec.arg.name for spec in program.graph_signature.output_specs if spec.kind in kinds]


def resolve_vmap(program: ExportedProgram) -> ExportedProgram:
    """Return the program without torch.vmap's marker nodes."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "call_function"}
    if targets.isdisjoint((predispatch._add_batch_dim, predispatch._remove_batch_dim)):
        return program
    with torch_mode(), silence_torch_export(), silence_warnings():
        functional: ExportedProgram = program.run_decompositions({})
        return functional


def _inline(outer: Converter, module: torch.fx.GraphModule, args: Sequence[Any], into: Graph) -> list[Any]:
    """Convert a submodule called with `args` into a graph, and return its outputs."""
    inner = Converter(module, Graph(nodes=into.nodes, params=outer.graph.params), outer.dim_of, outer.conversions, outer.autocast)
    for placeholder, arg in zip(module.graph.find_nodes(op="placeholder"), args, strict=True):
        inner.env[placeholder] = arg
    inner.run()
    return inner.graph.outputs


def _cond(converter: Converter, node: torch.fx.Node) -> Any:
    """Convert ``cond(pred, true, false, operands)`` to prim::If."""
    pred, true, false, operands = converter.look_up(node.args)
    blocks = [Graph(), Graph()]
    for block, branch in zip(blocks, (true, false), strict=True):
        block.outputs = _inline(converter, branch, operands, block)
    return converter.append("prim::If", [pred], node, blocks)


def _while_loop(converter: Converter, node: torch.fx.Node) -> Any:
    """Convert ``while_loop(cond, body, carried, additional)`` to prim::Loop.

    The condition is evaluated before the loop and at the end of each iteration.
    """
    cond, body, carried, additional = converter.look_up(node.args)
    carried = [_copied(converter, node, arg) for arg in carried]
    first = _inline(converter, cond, [*carried, *additional], converter.graph)
    values = [_carried_value(converter, arg, index) for index, arg in enumerate(carried)]
    block = Graph(inputs=[Value("i", ScalarType(int)), *values])
    after = _inline(converter, body, [*values, *additional], block)
    again = _inline(converter, cond, [*after, *additional], block)
    block.outputs = [*again, *after]
    return converter.append("prim::Loop", [None, first[0], *carried], node, [block])


def _copied(converter: Converter, node: torch.fx.Node, arg: Any) -> Any:
    """Clone a tensor that a loop carries, as torch does for a loop without iterations."""
    if not isinstance(arg, Value) or not isinstance(arg.type, TensorType):
        return arg
    copy = Value(arg.name, arg.type)
    converter.graph.nodes.append(Node("aten::clone", [arg, None], [copy], where=node_location(node)))
    return copy


def _scan(converter: Converter, node: torch.fx.Node) -> Any:
    """Convert ``scan(combine, init, xs, args)`` or ``map(f, xs, args)``.

    The prim::Scan iterates over axis 0. Its arguments are the lists `init` and `xs`.
    """
    body, *carried, xs, args = converter.look_up(node.args)
    init = carried[0] if carried else []  # map carries no values
    states = [_carried_value(converter, arg, index) for index, arg in enumerate(init)]
    slices = [Value(f"slice_{index}", _slice_type(x)) for index, x in enumerate(xs)]
    block = Graph(inputs=[*states, *slices])
    block.outputs = _inline(converter, body, [*states, *slices, *args], block)
    return converter.append("prim::Scan", [init, xs], node, [block])


def _carried_value(converter: Converter, arg: Any, index: int) -> Value:
    value = arg if isinstance(arg, Value) else converter.new("", arg)
    type_ = value.type
    return Value(f"carried_{index}", ScalarType(type_.kind) if isinstance(type_, ScalarType) else type_)


def _slice_type(x: Value) -> TensorType:
    assert isinstance(x.type, TensorType) and x.type.sizes is not None
    return TensorType(x.type.dtype, x.type.sizes[1:])


def _grad_mode(converter: Converter, node: torch.fx.Node) -> Any:
    """Inline a region under another grad mode, which computes the same values."""
    _, body, *args = converter.look_up(node.args)
    return _inline(converter, body, args, converter.graph)


def _autocast(converter: Converter, node: torch.fx.Node) -> Any:
    """Inline a region under autocast, with its casts made explicit by the converter."""
    _device, _dtype, enabled, _cache, body, *args = converter.look_up(node.args)
    before, converter.autocast = converter.autocast, bool(enabled)
    try:
        return _inline(converter, body, args, converter.graph)
    finally:
        converter.autocast = before


CONVERSIONS: dict[str, Conversion] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _scan,
    "wrap_with_set_grad_enabled": _grad_mode,
    "wrap_with_autocast": _autocast,
}
