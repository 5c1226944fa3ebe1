"""Convert an fx graph to the neutral graph, node by node."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.amp import autocast_mode
from torch.utils import _pytree as pytree

from onnxexp._capture.source_lines import node_location
from onnxexp._decompose.fake_values import DROPPED, SCALAR_OPS, scalar_op, type_of, typed_value
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, TensorType, Value, replace_values, values_in
from onnxexp._torch_ops.schemas import bind, full_name, overload

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
