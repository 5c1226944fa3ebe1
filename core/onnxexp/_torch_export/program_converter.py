"""Convert an ExportedProgram, with its higher-order operators, to a neutral graph."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch._functorch import predispatch
from torch.amp import autocast_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from onnxexp._capture.source_lines import node_location
from onnxexp._capture.torch_state import silence_torch_export, silence_warnings, torch_mode
from onnxexp._decompose.fake_values import DROPPED, SCALAR_OPS, scalar_op, type_of, typed_value
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Value, replace_values, values_in
from onnxexp._torch_ops.schemas import bind, full_name, overload


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


def retrace_incomplete(program: ExportedProgram) -> ExportedProgram:
    """Return a program without torch.vmap's markers, with the type of each result.

    A user's pass may leave calls without types. Other programs are returned as they are.
    """
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    calls = [node for graph in graphs for node in graph.nodes if node.op == "call_function"]
    marked = not {node.target for node in calls}.isdisjoint((predispatch._add_batch_dim, predispatch._remove_batch_dim))
    if not marked and not any(map(_lacks_type, calls)):
        return program
    with torch_mode(), silence_torch_export(), silence_warnings():
        functional: ExportedProgram = program.run_decompositions({})
        return functional


def _lacks_type(call: torch.fx.Node) -> bool:
    return "val" not in call.meta and isinstance(call.target, torch._ops.OpOverload) and bool(call.target._schema.returns)


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


Conversion: TypeAlias = "Callable[[Converter, torch.fx.Node], Any]"
"""A function that appends the nodes of a call of a higher-order operator, and returns its result."""

_KEEPS_DTYPE = {f"aten::{name}" for name in ("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "type_as")}
"""Operators whose result has the dtype of their first argument."""

_STAND_IN = re.compile("^onnxexp(_shapes)?::")
"""The namespaces of plugins' operators that stand for torch's of the same name; they may take more arguments at the end."""

_AUTOCAST = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)


def _dtype(arg: Any) -> torch.dtype | None:
    return arg.type.dtype if isinstance(arg, Value) and isinstance(arg.type, TensorType) else None


@dataclasses.dataclass(eq=False)
class Converter:
    """The conversion of one fx graph, with a converter of its own for a nested graph.

    Attributes:
        module: The fx graph.
        graph: The neutral graph that nodes are appended to.
        dim_of: Returns a size of torch's as an expression of names.
        conversions: Functions that convert calls of higher-order operators, by the operator's name.
        autocast: Whether the next nodes run under autocast.
        env: The values of the fx nodes converted so far.
    """

    module: torch.fx.GraphModule
    graph: Graph
    dim_of: Callable[[Any], Dim]
    conversions: Mapping[str, Conversion]
    autocast: bool = False
    env: dict[torch.fx.Node, Any] = dataclasses.field(default_factory=dict, init=False)
    _outer_autocast: list[bool] = dataclasses.field(default_factory=list, init=False)

    def run(self) -> None:
        """Convert every node except the placeholders, whose values are in `env` already."""
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.env[node] = self._call(node)
            elif node.op == "get_attr":
                self.env[node] = self._attribute(node)
            elif node.op == "output":
                self.graph.outputs = pytree.tree_leaves(self.look_up(node.args[0]))

    def new(self, name: str, meta: Any) -> Value:
        """Create a value with the type of torch's recorded fake tensor or symbolic number."""
        return Value(name, type_of(meta, self.dim_of))

    def look_up(self, arg: Any) -> Any:
        """Return an fx argument with its nodes replaced by their values."""
        if isinstance(arg, torch.fx.Node):
            return self.env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.look_up(element) for element in arg]
        if isinstance(arg, slice):
            raise CaptureError("an operator takes a slice object, which a neutral graph cannot represent")
        return arg

    def _attribute(self, node: torch.fx.Node) -> Any:
        target = operator.attrgetter(str(node.target))(self.module)
        if isinstance(target, torch.Tensor):
            value = self.new(str(node.target), target)
            self.graph.params[value] = target.detach()
            return value
        return target

    def _call(self, node: torch.fx.Node) -> Any:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            name = full_name(target._schema)
            if name in DROPPED:
                return None
            args = bind(target._schema, self.look_up(node.args), {key: self.look_up(arg) for key, arg in node.kwargs.items()})
            args = self._cast(args, node) if self.autocast else args
            meant = overload(_STAND_IN.sub("aten::", name)) or target
            return self.append(full_name(meant._schema), args[: len(meant._schema.arguments)], node)
        if target is operator.getitem:
            source, index = node.args
            return self.look_up(source)[index]
        if target is autocast_mode._enter_autocast:
            self._outer_autocast.append(self.autocast)
            self.autocast = bool(node.args[2])
            return None
        if target is autocast_mode._exit_autocast:
            self.autocast = self._outer_autocast.pop()
            return None
        if isinstance(target, type) and issubclass(target, tuple):  # torch's named tuples, from decompositions
            fields = self.look_up(node.args)
            return fields[0] if len(fields) == 1 and isinstance(fields[0], list) else fields
        if target in SCALAR_OPS:
            return self._scalar(SCALAR_OPS[target], node)
        name = str(getattr(target, "__name__", target))  # only functions have a name
        if name not in self.conversions:
            where = f"\n  at {node_location(node)}"
            raise CaptureError(
                f"torch's {name} cannot be a node of the graph; to fix this, compute it with operators on tensors{where}"
            )
        return self.conversions[name](self, node)

    def _cast(self, args: list[Any], node: torch.fx.Node) -> list[Any]:
        """Append the casts of floating inputs to the result's dtype under autocast.

        The casts apply to the operators with an autocast kernel, and to composites of those (einsum). For any other operator,
        type promotion, a `dtype` argument or a write into `self` explains the dtype of the result.
        """
        meta, target = node.meta.get("val"), node.target
        assert isinstance(target, torch._ops.OpOverload)
        floats = {dtype for dtype in map(_dtype, values_in(args)) if dtype is not None and dtype.is_floating_point}
        if not isinstance(meta, torch.Tensor) or not meta.dtype.is_floating_point or floats <= {meta.dtype}:
            return args
        if not any(target.has_kernel_for_dispatch_key(key) for key in _AUTOCAST) and (
            functools.reduce(torch.promote_types, floats) == meta.dtype
            or any(isinstance(arg, torch.dtype) for arg in args)
            or target._schema.is_mutable
            or target._schema.name in _KEEPS_DTYPE
        ):
            return args

        def cast(arg: Value) -> Value:
            dtype = _dtype(arg)
            if dtype is None or not dtype.is_floating_point or dtype == meta.dtype:
                return arg
            assert isinstance(arg.type, TensorType)
            cast_value = Value(f"{arg.name}_autocast", TensorType(meta.dtype, arg.type.sizes))
            self.graph.nodes.append(
                Node("aten::to.dtype", [arg, meta.dtype, False, False, None], [cast_value], where=node_location(node))
            )
            return cast_value

        return list(replace_values(args, cast))

    def _scalar(self, name: str, node: torch.fx.Node) -> Any:
        meta = node.meta.get("val")
        if isinstance(meta, (bool, int, float)):
            return meta
        args = self.look_up(node.args)
        if node.target is round and args[1:] == [None]:  # Python's ndigits; aten::round has no such argument
            del args[1:]
        return self.append(scalar_op(name, args), args, node)

    def append(self, op: str, args: Sequence[Any], node: torch.fx.Node, blocks: Sequence[Graph] = ()) -> Any:
        """Append a node to the neutral graph, and return its value or list of values."""
        meta = node.meta.get("val")
        if isinstance(meta, (bool, int, float)) and op.startswith("aten::sym_"):
            return meta
        results = None if meta is None else typed_value(node.name, meta, self.dim_of)
        outputs = pytree.tree_leaves(results) if meta is not None else []
        self.graph.nodes.append(Node(op, list(args), outputs, list(blocks), node_location(node)))
        return results
