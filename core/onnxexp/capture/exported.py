"""An ExportedProgram as a neutral graph."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._functorch import predispatch
from torch.amp import autocast_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxexp.capture import composites, higher_order
from onnxexp.capture.modes import quiet_export, torch_mode
from onnxexp.capture.sources import place
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim, Graph, Node, ScalarType, TensorType, Type, Value, values_in
from onnxexp.torch_schemas import bind, full_name

__all__ = ["DROPPED", "Converter", "flat", "made", "scalar_op", "to_graph", "type_of", "without_vmap", "written"]

_SCALAR_OPS: dict[Any, str] = {
    operator.add: "aten::add",
    operator.sub: "aten::sub",
    operator.mul: "aten::mul",
    operator.floordiv: "aten::floordiv",
    operator.truediv: "aten::div",
    operator.mod: "aten::remainder",
    operator.pow: "aten::pow",
    operator.neg: "aten::neg",
    operator.eq: "aten::eq",
    operator.ne: "aten::ne",
    operator.lt: "aten::lt",
    operator.le: "aten::le",
    operator.gt: "aten::gt",
    operator.ge: "aten::ge",
    operator.and_: "aten::__and__",
    operator.or_: "aten::__or__",
    operator.not_: "aten::__not__",
    math.ceil: "aten::ceil",
    math.floor: "aten::floor",
    math.trunc: "aten::Int",
    torch.sym_max: "prim::max",
    torch.sym_min: "prim::min",
    torch.sym_not: "aten::__not__",
    torch.sym_float: "aten::Float",
    torch.sym_int: "aten::Int",
    torch.sym_sum: "aten::sum",
    torch.sym_ite: "prim::ternary",
    round: "aten::round",
}
"""Python's arithmetic on sizes, under the names that TorchScript gives the same operations."""

DROPPED = {
    "aten::_assert_scalar",
    "aten::_assert_async.msg",
    "aten::_assert_async",
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
}
"""Checks that hold for the example and have no place in an ONNX graph."""

_KEEPS_DTYPE = {
    "aten::batch_norm",
    "aten::group_norm",
    "aten::instance_norm",
    "aten::layer_norm",
    "aten::rms_norm",
    "aten::type_as",
}
"""Operators whose result has the dtype of their first argument, whatever that of the others is."""

_AUTOCAST = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)


def to_graph(program: ExportedProgram, dim_text: Callable[[Any], Dim]) -> Graph:
    """The program's graph, every call bound to its torch schema.

    `dim_text` gives the readable text of a symbolic size. The graph's inputs are the user's inputs, one Value for each
    flattened argument, constants included. Raises CaptureError for what has no place in a neutral graph.
    """
    graph = Graph()
    converter = Converter(program.graph_module, graph, dim_text)
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.find_nodes(op="placeholder"):
        spec = kinds[node.name]
        value = converter.new(node.name, node.meta.get("val"))
        if spec.kind is InputKind.USER_INPUT:
            converter.env[node] = value
            graph.inputs.append(value)
            if isinstance(spec.arg, ConstantArgument):
                converter.env[node] = spec.arg.value
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = _stored(program, spec)
            value.name = spec.target or node.name
            graph.params[value] = tensor
            converter.env[node] = value
        else:
            raise CaptureError(
                f"the captured program takes {spec.target or node.name}, a {spec.kind.name}, which ONNX cannot hold"
            )
    converter.run()
    returned = zip(graph.outputs, program.graph_signature.output_specs, strict=True)
    graph.outputs = [output for output, spec in returned if spec.kind is OutputKind.USER_OUTPUT]
    return graph


def written(program: ExportedProgram) -> list[str]:
    """The inputs and buffers that the forward writes into and that the program returns for it, as decomposed programs do."""
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return [spec.target or spec.arg.name for spec in program.graph_signature.output_specs if spec.kind in kinds]


def without_vmap(program: ExportedProgram) -> ExportedProgram:
    """The program itself, or, where torch.vmap left marks around what it maps, what torch makes of it."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "call_function"}
    if targets.isdisjoint((predispatch._add_batch_dim, predispatch._remove_batch_dim)):
        return program
    with torch_mode(), quiet_export(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's remarks about its own internals
        functional: ExportedProgram = program.run_decompositions({})
        return functional


def _stored(program: ExportedProgram, spec: Any) -> torch.Tensor:
    tensor = program.state_dict.get(spec.target)
    if tensor is None:
        tensor = program.constants[spec.target]
    return tensor.detach()  # type: ignore[no-any-return]


def _dtype(arg: Any) -> torch.dtype | None:
    return arg.type.dtype if isinstance(arg, Value) and isinstance(arg.type, TensorType) else None


def flat(value: Any) -> Iterator[Any]:
    """The elements of nested lists."""
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from flat(element)
    else:
        yield value


def type_of(meta: Any, dim_text: Callable[[Any], Dim]) -> Type:
    """The type of a fake tensor or symbolic number."""
    if isinstance(meta, torch.Tensor):
        sizes: Sequence[Any] = meta.shape
        return TensorType(meta.dtype, tuple(size if isinstance(size, int) else dim_text(size) for size in sizes))
    if isinstance(meta, (bool, torch.SymBool)):
        return ScalarType(bool)
    if isinstance(meta, (int, torch.SymInt)):
        return ScalarType(int, str(dim_text(meta)))
    if isinstance(meta, (float, torch.SymFloat)):
        return ScalarType(float)
    return TensorType(None, None)


def made(name: str, meta: Any, dim_text: Callable[[Any], Dim]) -> Any:
    """A value typed by its meta, or for a list (of lists) of results such a list; the node has them all in a row."""
    if isinstance(meta, (list, tuple)):
        return [made(f"{name}_{index}", one, dim_text) for index, one in enumerate(meta)]
    return Value(name, type_of(meta, dim_text))


def scalar_op(name: str, args: Sequence[Any]) -> str:
    """The overload of an operator of Python's that takes these numbers."""
    kinds = [arg.type.kind if isinstance(arg, Value) and isinstance(arg.type, ScalarType) else type(arg) for arg in args]
    overload = "float" if float in kinds else "bool" if kinds and all(kind is bool for kind in kinds) else "int"
    return f"{name}.{overload}"


class Converter:
    """Turns one fx graph into neutral nodes; nested graphs get converters of their own that share the outer values."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        graph: Graph,
        dim_text: Callable[[Any], Dim],
        autocast: bool = False,
    ) -> None:
        self.module = module
        self.graph = graph
        self.dim_text = dim_text
        self.autocast = autocast
        self._left: list[bool] = []
        self.env: dict[torch.fx.Node, Any] = {}

    def run(self) -> None:
        """Convert every node but the placeholders, whose values are in `env` already."""
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.env[node] = self._call(node)
            elif node.op == "get_attr":
                self.env[node] = self._attribute(node)
            elif node.op == "output":
                self.graph.outputs = list(flat(self.look_up(node.args[0])))

    def new(self, name: str, meta: Any) -> Value:
        """A value typed by the fake tensor or symbolic number that torch recorded."""
        return Value(name, type_of(meta, self.dim_text))

    def look_up(self, arg: Any) -> Any:
        """An fx argument with nodes replaced by values."""
        if isinstance(arg, torch.fx.Node):
            return self.env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.look_up(element) for element in arg]
        if isinstance(arg, slice):
            raise CaptureError("a slice object as an operator's argument has no place in a neutral graph")
        return arg

    def _attribute(self, node: torch.fx.Node) -> Any:
        target = self.module
        for name in str(node.target).split("."):
            target = getattr(target, name)  # fx names attributes by path
        if isinstance(target, torch.Tensor):
            value = self.new(str(node.target), target)
            self.graph.params[value] = target.detach()
            return value
        return target

    def _call(self, node: torch.fx.Node) -> Any:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            name = full_name(target)
            if name in DROPPED:
                return None
            args = bind(target._schema, self.look_up(node.args), {key: self.look_up(arg) for key, arg in node.kwargs.items()})
            args = composites.torch_arguments(name, self._cast(args, node) if self.autocast else args)
            return self.append(composites.NAMES.get(name, name), args, node)
        if target is operator.getitem:
            source, index = node.args
            return self.look_up(source)[index]
        if target is autocast_mode._enter_autocast:
            self._left.append(self.autocast)
            self.autocast = bool(node.args[2])
            return None
        if target is autocast_mode._exit_autocast:
            self.autocast = self._left.pop()
            return None
        if isinstance(target, type) and issubclass(target, tuple):  # torch's named results, made by decompositions
            fields = self.look_up(node.args)
            return fields[0] if len(fields) == 1 and isinstance(fields[0], list) else fields
        if target in _SCALAR_OPS:
            return self._scalar(_SCALAR_OPS[target], node)
        lower = higher_order.CONVERSIONS.get(str(getattr(target, "__name__", target)))
        if lower is None:
            name = getattr(target, "__name__", str(target))  # a function, or an operator of torch's
            raise CaptureError(
                f"torch's {name} has no counterpart in ONNX; write that part with operators on tensors\n  at {place(node)}"
            )
        return lower(self, node)

    def _cast(self, args: list[Any], node: torch.fx.Node) -> list[Any]:
        """What autocast casts, cast: the floating inputs of some operators, to the dtype of their result.

        Beside the operators that autocast is registered for these are the ones made of them (einsum). Of others, promotion,
        a `dtype` argument or a write into `self` explains the result's dtype.
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

        def cast(arg: Any) -> Any:
            if isinstance(arg, list):
                return [cast(element) for element in arg]
            dtype = _dtype(arg)
            if dtype is None or not dtype.is_floating_point or dtype == meta.dtype:
                return arg
            made = Value(f"{arg.name}_autocast", TensorType(meta.dtype, arg.type.sizes))
            self.graph.nodes.append(Node("aten::to.dtype", [arg, meta.dtype, False, False, None], [made], where=place(node)))
            return made

        return [cast(arg) for arg in args]

    def _scalar(self, name: str, node: torch.fx.Node) -> Any:
        meta = node.meta.get("val")
        if isinstance(meta, (bool, int, float)):
            return meta
        args = self.look_up(node.args)
        if node.target is round and args[1:] == [None]:  # Python's ndigits, which the operator does not have
            del args[1:]
        return self.append(scalar_op(name, args), args, node)

    def append(self, op: str, args: Sequence[Any], node: torch.fx.Node) -> Any:
        """A node of the neutral graph; returns its value, or the list of its values."""
        meta = node.meta.get("val")
        if isinstance(meta, (bool, int, float)) and op.startswith("aten::sym_"):
            return meta
        results = None if meta is None else made(node.name, meta, self.dim_text)
        self.graph.nodes.append(Node(op, list(args), list(flat(results)) if meta is not None else [], where=place(node)))
        return results
