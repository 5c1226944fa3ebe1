"""Record the operators of a decomposition as a graph.

A decomposition is a function of tensors. It runs on fake tensors, under a torch dispatch mode that appends a node for each
operator.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxexp._decompose.fake_values import DROPPED, typed_value
from onnxexp._decompose.size_expressions import SizeExpressions
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, Value
from onnxexp._request.unique_names import UniqueNames
from onnxexp._torch_ops.schemas import bind, full_name

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DETACH = torch.ops.aten.detach.default
_LIFT = torch.ops.aten.lift_fresh.default
_LIFT_COPY = torch.ops.aten.lift_fresh_copy.default
_METADATA_QUERIES = {
    torch.ops.prim.device.default,
    torch.ops.aten.size.default,
    torch.ops.aten.stride.default,
    torch.ops.aten.storage_offset.default,
}
"""Operators that read a tensor's metadata; they need no node."""


class OpRecorder(TorchDispatchMode):
    """A dispatch mode that records every operator in a graph.

    Fake tensors are found by identity, so the recorder keeps a reference to each. A tensor with data becomes a constant of the
    graph.

    Attributes:
        graph: The operators recorded so far.
    """

    def __init__(self, dim_of: Callable[[Any], Dim]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._dim_of = dim_of
        self._values: dict[int, Value] = {}
        self._alive: list[torch.Tensor] = []
        self._names = UniqueNames()
        self._names.reserve(dir(builtins))  # torch.export does not call a value `sum`
        self._sizes = SizeExpressions(self.graph, self._new_name, dim_of)

    def bind_value(self, item: Any, value: Value) -> None:
        """Bind a tensor or a symbolic number to its value in the graph."""
        if isinstance(item, torch.Tensor):
            self._values[id(item)] = value
            self._alive.append(item)
            for axis, size in enumerate(item.shape):
                if isinstance(size, torch.SymInt):
                    self._sizes.bind_axis(size, value, axis)
        elif isinstance(item, _SYMBOLIC):
            self._sizes.bind_number(item, value)

    def value(self, arg: Any) -> Any:
        """Return the graph's value for an argument or result."""
        if isinstance(arg, torch.Tensor):
            known = self._values.get(id(arg))
            return self._constant(arg) if known is None else known
        if isinstance(arg, (list, tuple)):
            return [self.value(element) for element in arg]
        return self._sizes.value(arg) if isinstance(arg, _SYMBOLIC) else arg

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        keywords = kwargs or {}
        if func in _METADATA_QUERIES:
            return func(*args, **keywords)
        if func._can_decompose() and not func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU):
            with self:
                return func.decompose(*args, **keywords)
        if func is _DETACH:  # the same value; torch detaches its own intermediate results, too
            result = func(*args)
            self.bind_value(result, self.value(args[0]))
            return result
        func = _LIFT_COPY if func is _LIFT else func  # later writes must not reach the constant
        bound = bind(func._schema, self.value(args), {name: self.value(arg) for name, arg in keywords.items()})
        result = func(*args, **keywords)
        if full_name(func._schema) not in DROPPED:
            self._append(full_name(func._schema), bound, result)
        return result

    def _append(self, op: str, args: list[Any], result: Any) -> None:
        """Append the node of a call, except for a constant number."""
        if isinstance(result, (bool, int, float)):
            return
        values = [] if result is None else pytree.tree_leaves(typed_value(self._new_name(op), result, self._dim_of))
        self.graph.nodes.append(Node(op, args, values))
        for item, value in zip(pytree.tree_leaves(result), values, strict=False):
            self.bind_value(item, value)

    def _new_name(self, op: str) -> str:
        return self._names.unique(op.partition(".")[0].rpartition("::")[2])

    def _constant(self, tensor: torch.Tensor) -> Value:
        if isinstance(tensor, FakeTensor):
            raise CaptureError("the decomposition uses a tensor without data that no operator produced")
        value: Value = typed_value(self._new_name("_tensor_constant"), tensor, self._dim_of)
        with unset_fake_temporarily():
            self.graph.params[value] = tensor.detach()
        self.bind_value(tensor, value)
        return value
