"""What a decomposition does, written down operator by operator.

torch's decompositions are functions of tensors. They run here on tensors without data, and each operator that they call
becomes a node of a neutral graph on its way through torch's dispatcher.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from onnxexp.capture.torch_export.decompose.size_expressions import OpNames, SizeValues
from onnxexp.capture.torch_export.fake_values import DROPPED, flat, made
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim, Graph, Node, Value
from onnxexp.torch_ops.schemas import bind, full_name

__all__ = ["META", "Recorder"]

META = torch.device("meta")
_CPU = torch.device("cpu")
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DETACH = torch.ops.aten.detach.default
_LIFT = torch.ops.aten.lift_fresh.default
_LIFT_COPY = torch.ops.aten.lift_fresh_copy.default
_ASKING = {
    torch.ops.prim.device.default,
    torch.ops.aten.size.default,
    torch.ops.aten.stride.default,
    torch.ops.aten.storage_offset.default,
}
"""What a tensor without data tells of itself."""


class Recorder(TorchDispatchMode):
    """Inside, every operator that runs is written into a graph.

    The tensors are on the meta device, or, where `fakes` says so, those of a fake mode. Each is known by its identity, and kept
    alive for that as long as the recorder is. A tensor with data that turns up is a constant of the graph.

    Attributes:
        graph: What has run so far.
    """

    def __init__(self, dim_text: Callable[[Any], Dim], *, fakes: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._dim_text = dim_text
        self._fakes = fakes
        self._values: dict[int, Value] = {}
        self._alive: list[torch.Tensor] = []
        self._names = OpNames()
        self._sizes = SizeValues(self.graph, self._names, dim_text)

    def know(self, thing: Any, value: Value) -> None:
        """Note the value that a tensor or a symbolic number stands for."""
        if isinstance(thing, torch.Tensor):
            self._values[id(thing)] = value
            self._alive.append(thing)
            if self._fakes:
                for axis, size in enumerate(thing.shape):
                    if isinstance(size, torch.SymInt):
                        self._sizes.know_axis(size, value, axis)
        elif isinstance(thing, _SYMBOLIC):
            self._sizes.know_number(thing, value)

    def value(self, arg: Any) -> Any:
        """An argument or result as the graph has it."""
        if isinstance(arg, torch.Tensor):
            known = self._values.get(id(arg))
            return self._constant(arg) if known is None else known
        if isinstance(arg, (list, tuple)):
            return [self.value(element) for element in arg]
        if isinstance(arg, _SYMBOLIC):
            return self._sizes.value(arg)
        return _CPU if arg == META else arg

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        keywords = kwargs or {}
        if func in _ASKING:
            return func(*args, **keywords)
        if func._can_decompose() and not func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU):
            with self:
                return func.decompose(*args, **keywords)
        if func is _DETACH:  # the same tensor; torch detaches what it has made itself, too
            result = func(*args)
            self.know(result, self.value(args[0]))
            return result
        func = _LIFT_COPY if func is _LIFT else func  # what is then written into must not be the constant
        bound = bind(func._schema, self.value(args), {name: self.value(arg) for name, arg in keywords.items()})
        result = self._run(func, args, keywords)
        if full_name(func) not in DROPPED:
            self._append(full_name(func), bound, result)
        return result

    def _run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._fakes:
            return func(*args, **kwargs)
        keywords = {name: _on_meta(arg) for name, arg in kwargs.items()}
        if _takes_device(func):
            keywords["device"] = META
        with no_python_dispatcher():  # the types are all that is asked for: torch's kernels in C++ tell them much faster
            return func(*map(_on_meta, args), **keywords)

    def _append(self, op: str, args: list[Any], result: Any) -> None:
        """The node of a call; a number that is one whatever the inputs are needs none."""
        if isinstance(result, (bool, int, float)):
            return
        values = [] if result is None else list(flat(made(self._names.new(op), result, self._dim_text)))
        self.graph.nodes.append(Node(op, args, values))
        for thing, value in zip(flat(result), values, strict=False):
            self.know(thing, value)

    def _constant(self, tensor: torch.Tensor) -> Value:
        if tensor.is_meta or isinstance(tensor, FakeTensor):
            raise CaptureError("a tensor without data that no operator has made")
        value: Value = made(self._names.new("_tensor_constant"), tensor, self._dim_text)
        self.graph.params[value] = tensor.detach()
        self.know(tensor, value)
        return value


def _on_meta(arg: Any) -> Any:
    """An argument of an operator that is to run on the meta device."""
    if isinstance(arg, torch.Tensor):
        return arg if arg.is_meta else torch.empty_like(arg, device=META)
    if isinstance(arg, torch.device):
        return META
    return [_on_meta(element) for element in arg] if isinstance(arg, (list, tuple)) else arg


@functools.lru_cache(maxsize=4096)
def _takes_device(op: Any) -> bool:
    return any(argument.name == "device" and argument.kwarg_only for argument in op._schema.arguments)
