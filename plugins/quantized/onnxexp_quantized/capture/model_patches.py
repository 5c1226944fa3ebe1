"""Replace what is quantized in a model by stand-ins while it is captured.

Quantized tensors that a module stores become buffers: a capture treats those as parts of the model and keeps their names.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from onnxexp import is_in_onnx_export
from onnxexp.frontends import is_scripted, replace_attributes
from onnxexp_quantized.capture import dynamic, parameters, prepacking, recurrent
from onnxexp_quantized.capture.embedding import byte_embedding_replacements
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.packed_weights import as_stand_in, is_packed, unpack
from onnxexp_quantized.capture.quantized_tensor import BY_INTEGERS, QuantizedTensor, implemented_by
from onnxexp_quantized.capture.replaced_functions import Functions, replace_functions

QUANTIZING: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor": parameters.quantize_per_tensor,
    "quantize_per_channel": parameters.quantize_per_channel,
    "quantize_per_tensor_dynamic": dynamic.quantize_per_tensor_dynamic,
    "_make_per_tensor_quantized_tensor": parameters.make_per_tensor,
    "_make_per_channel_quantized_tensor": parameters.make_per_channel,
    "dequantize": parameters.dequantize,
    "quantized_lstm": recurrent.lstm,
    "quantized_gru": recurrent.gru,
}
"""The functions of torch that may have no stand-in among their arguments."""
_PLAIN = frozenset([OrderedDict, bool, dict, float, int, list, set, str, tuple, type(None)])
"""The types of most attributes of a module."""
_PACKAGES = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
"""The packages of torch's quantized modules."""


def is_quantized(model: Any) -> bool:
    """Return whether a model has quantized modules, tensors or packed parameters."""
    if not isinstance(model, torch.nn.Module):
        return False
    modules = list(model.modules())
    if any(map(_is_of_torch, {type(module) for module in modules})):
        return True
    return any(
        any(
            is_packed(value) or _is_quantized_tensor(value) for value in _attributes(module).values() if type(value) not in _PLAIN
        )
        or (isinstance(module, torch.fx.GraphModule) and any(_replacement(node) for node in module.graph.nodes))
        for module in modules
    )


def calls_quantizing(model: torch.nn.Module) -> bool:
    """Return whether a module's `forward` names a function that quantizes.

    Graph modules and scripted modules are left out: `is_quantized` reads the graph of the former, and the code of the latter
    names no function.
    """
    modules = (module for module in model.modules() if not isinstance(module, torch.fx.GraphModule) and not is_scripted(module))
    forwards = (inspect.unwrap(module.forward) for module in modules)
    codes = [forward.__code__ for forward in forwards if inspect.isroutine(forward) and hasattr(forward, "__code__")]
    while codes:
        code = codes.pop()
        if not QUANTIZING.keys().isdisjoint(code.co_names):
            return True
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return False


@contextlib.contextmanager
def stand_ins(model: torch.nn.Module, functions: FunctionTable) -> Iterator[None]:
    """Replace packed parameters, quantized tensors, and scales that are buffers.

    Args:
        model: The model.
        functions: The implementations of torch's functions on stand-ins.
    """
    with contextlib.ExitStack() as stack:
        for parent in list(model.modules()):
            for path, module in [("", parent), *parent.named_children()]:
                if path in ("", "_packed_params") or type(module).__name__.endswith("PackedParams"):
                    stack.enter_context(_patched(parent, module))
        stack.enter_context(quantizing_functions(functions))
        stack.enter_context(replace_functions(recurrent.packed_sequences()))
        yield


@contextlib.contextmanager
def quantizing_functions(functions: FunctionTable) -> Iterator[None]:
    """Replace torch's functions that quantize, inside the `with`.

    The operators that read tables of bytes or take float16 weights are replaced too. `functions` are the implementations on the
    stand-ins that the replacements return.
    """
    with implemented_by(functions), _replaced():
        yield


def functions_in_capture() -> Functions:
    """List the same functions for the capture of a model whose forwards name none.

    Such a model may call them elsewhere, or get a quantized tensor from a library.
    """
    return [*_functions(), *((torch.ops.quantized, name, function) for name, function in _operators().items())]


@contextlib.contextmanager
def _replaced() -> Iterator[None]:
    operators: Any = torch.ops.quantized
    table = [(operators, name, _Operator(operators, name, function)) for name, function in _operators().items()]
    with replace_functions(_functions()), replace_attributes(table):
        yield


def _functions() -> Functions:
    return [
        *((torch, name, function) for name, function in QUANTIZING.items()),
        (torch.Tensor, "dequantize", parameters.dequantize),
    ]


def _operators() -> dict[str, Callable[..., Any]]:
    return {**byte_embedding_replacements(), **prepacking.half_prepacking()}


class _Operator:
    """An operator of torch, schema and overloads, with another implementation."""

    def __init__(self, namespace: Any, name: str, implementation: Callable[..., Any]) -> None:
        self._packet = getattr(namespace, name)  # torch looks operators up by their names
        self._implementation = implementation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._implementation if is_in_onnx_export() else self._packet)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._packet, name)


@contextlib.contextmanager
def _patched(owner: torch.nn.Module, module: torch.nn.Module) -> Iterator[None]:
    """Replace the attributes of one module; new buffers belong to `owner`."""
    with contextlib.ExitStack() as stack:
        for name, value in _attributes(module).items():
            if is_packed(value):
                prefix = "" if name in ("_packed_params", "_packed_weight") else f"{name}_"
                packed = stack.enter_context(unpack(owner, prefix, value))
                stack.enter_context(replace_attributes([(module, name, packed)]))
            elif _is_quantized_tensor(value):
                stack.enter_context(stored(module, name, value))
            elif _is_parameter(module, name):
                stack.enter_context(_as_number(module, name))
        stack.enter_context(quantized_weight(module))
        if isinstance(module, torch.fx.GraphModule):
            stack.enter_context(_retargeted(module))
        yield


@contextlib.contextmanager
def _retargeted(module: torch.fx.GraphModule) -> Iterator[None]:
    """Replace the functions in a graph: torch.export runs its nodes, not its code."""
    before = [(node, node.target) for node in module.graph.nodes if _replacement(node)]
    for node, _ in before:
        node.target = _replacement(node)
    try:
        yield
    finally:
        for node, target in before:
            node.target = target


@contextlib.contextmanager
def _as_number(module: torch.nn.Module, name: str) -> Iterator[None]:
    """Turn a buffer into an attribute that is a number."""
    order, buffer = list(module._buffers), module._buffers.pop(name)
    assert buffer is not None
    vars(module)[name] = buffer.item()
    try:
        yield
    finally:
        del vars(module)[name]
        module._buffers[name] = buffer
        module._buffers.update({each: module._buffers.pop(each) for each in order})


def _is_parameter(module: torch.nn.Module, name: str) -> bool:
    """Return whether a buffer is a scale or zero point used as a number."""
    buffer = module._buffers.get(name)
    if buffer is None or buffer.numel() != 1:
        return False
    if _is_of_torch(type(module)) and name in ("scale", "zero_point"):
        return True
    return isinstance(module, torch.fx.GraphModule) and any(
        user.op == "call_function" and "quantize" in str(user.target)
        for node in module.graph.nodes
        if node.op == "get_attr" and node.target == name
        for user in node.users
    )


def _replacement(node: torch.fx.Node) -> Any:
    """Return the function for a node that makes a quantized tensor."""
    name = node.target.__name__ if node.op == "call_function" and callable(node.target) else ""
    return QUANTIZING[name] if name in QUANTIZING and node.target is vars(torch)[name] else None


def _is_of_torch(kind: type) -> bool:
    """Return whether a class is a quantized module of torch or derives from one."""
    return any(each.__module__.startswith(_PACKAGES) for each in kind.__mro__)


def _is_quantized_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {**vars(module), **module._buffers, **module._parameters}


def _field(suffix: str) -> Any:
    """Return a property in a buffer of the module, or beside it if it is a number."""

    def read(self: _StoredTensor) -> Any:
        return self.numbers_by_suffix.get(suffix, self.buffers.get(f"{self.name}{suffix}"))

    def write(self: _StoredTensor, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.buffers[f"{self.name}{suffix}"] = value
        else:
            self.numbers_by_suffix[suffix] = value

    return property(read, write)


class _StoredTensor(QuantizedTensor):
    """A quantized tensor that reads the buffers of its module at each use."""

    integers = _field("")
    scale = _field("_scale")
    zero_point = _field("_zero_point")

    def __init__(self, module: torch.nn.Module, name: str, tensor: QuantizedTensor) -> None:
        self.buffers: dict[str, torch.Tensor | None] = module._buffers
        self.name = name
        self.numbers_by_suffix: dict[str, Any] = {}
        super().__init__(tensor.integers, tensor.scale, tensor.zero_point, tensor.dtype, tensor.axis)


@contextlib.contextmanager
def stored(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> Iterator[None]:
    """Store the integers of a module's quantized tensor as its buffers."""
    with _restored(module._parameters, module._buffers):
        module._parameters.pop(name, None)
        with _replaced_attributes(module, {name: _StoredTensor(module, name, as_stand_in(tensor))}):
            yield


@contextlib.contextmanager
def quantized_weight(module: torch.nn.Module) -> Iterator[None]:
    """Quantize the float weight that a reference module quantizes in each call."""
    from torch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule

    schemes = (torch.per_tensor_affine, torch.per_channel_affine)
    if not isinstance(module, ReferenceQuantizedModule) or module.weight_qscheme not in schemes:
        yield
        return
    with torch.no_grad():
        weight = module.get_quantized_weight()  # type: ignore[no-untyped-call]  # torch's, which has no annotations
    if weight.is_quantized:
        quantized = as_stand_in(weight)
    else:
        axis = None if module.weight_qscheme == torch.per_tensor_affine else module.weight_axis_int
        quantized = QuantizedTensor(weight, module.weight_scale, module.weight_zero_point, BY_INTEGERS[weight.dtype], axis)
    with _restored(module._parameters, module._buffers):
        del module._parameters["weight"]
        tensor = _StoredTensor(module, "weight", quantized)
        with _replaced_attributes(module, {"get_quantized_weight": lambda: tensor, "get_weight": lambda: tensor.dequantize()}):
            yield


@contextlib.contextmanager
def _replaced_attributes(module: torch.nn.Module, values: dict[str, Any]) -> Iterator[None]:
    """Set attributes that may have the names of buffers."""
    attributes = vars(module)
    before = {name: attributes[name] for name in values if name in attributes}
    attributes.update(values)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                attributes[name] = before[name]
            else:
                del attributes[name]


@contextlib.contextmanager
def _restored(*tables: dict[str, Any]) -> Iterator[None]:
    """Restore the entries of dictionaries, and their order."""
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)
