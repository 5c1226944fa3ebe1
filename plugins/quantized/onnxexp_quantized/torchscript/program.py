"""A TorchScript program as a module in Python, which frontends capture."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp.frontends import is_scripted, signature_of
from onnxexp.graph import SourceLocation
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_quantized.capture.model_patches import QUANTIZING, calls_quantizing
from onnxexp_quantized.capture.quantized_tensor import StandIn, call

_QUANTIZED = re.compile(r"PackedParams|CellParamsBase|quantized::|aten::quantize|per_tensor_quantized|per_channel_quantized")
"""What the text of a quantized program has."""
_PLACE = re.compile(r"""^(?:  File "(.+)", line (\d+)|(.+)\((\d+)\): )""", re.MULTILINE)
"""A line of a script, or one of the callers of a traced operator."""
_NUMBER_READERS = (
    "aten::quantize_per_tensor",
    "aten::Float",
    "aten::FloatImplicit",
    "aten::Int",
    "aten::IntImplicit",
    "aten::item",
)
"""The nodes that read a buffer as a number."""
_NUMBERS = (torch.int64, torch.float64, torch.bool)
"""The dtypes of the 0-d constants that stand for Python's numbers in a trace."""


def as_program(model: Any, *, quantized: bool) -> torch.nn.Module | None:
    """Return the program of a quantized TorchScript model; None for any other model.

    Args:
        model: The model.
        quantized: Whether its inputs are quantized.
    """
    if not is_scripted(model):
        return None
    method = vars(model).get("scripted")  # a function as a module
    if method is None and model._c._has_method("forward"):
        method = model._c._get_method("forward")
    if method is None:
        return None
    graph = method.graph.copy()
    torch._C._jit_pass_inline(graph)
    if not quantized and not _QUANTIZED.search(str(graph)):
        return None
    return _Program(model, graph, method)


@contextlib.contextmanager
def programs_in(model: torch.nn.Module) -> Iterator[None]:
    """Replace the parts of a model that are quantized ones in TorchScript."""
    parts = [(owner, *part) for owner in model.modules() if not is_scripted(owner) for part in owner._modules.items()]
    programs = {part: as_program(part, quantized=False) for _, _, part in parts}
    others = {part for _, _, part in parts if programs[part] is None and is_scripted(part)}
    if others and calls_quantizing(model):
        programs |= {part: _OnStandIns(part) for part in others}
    with contextlib.ExitStack() as restore:
        for owner, name, part in parts:
            if programs[part] is not None:
                restore.callback(owner._modules.__setitem__, name, part)
                owner._modules[name] = programs[part]
        yield


class _OnStandIns(torch.nn.Module):
    """A scripted part: a program in Python where an argument is a stand-in."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        stand_ins = any(isinstance(leaf, StandIn) for leaf in pytree.tree_leaves((args, kwargs)))
        program = as_program(self.part, quantized=True) if stand_ins else None
        return (program or self.part)(*args, **kwargs)


class _Part(torch.nn.Module):
    """A module of the program, with the attributes that the program reads."""


class _Program(_Part):
    """A program that runs node by node, with the branches that its inputs take.

    Its submodules have the names of the scripted ones, and their tensors and packed parameters.
    """

    def __init__(self, model: torch.nn.Module, graph: Any, method: Any) -> None:
        super().__init__()
        self._graph = graph
        self._held: dict[int, tuple[torch.nn.Module, str]] = {}
        self._known: dict[int, Any] = {}
        has_self = isinstance(method, torch._C.ScriptMethod)
        self._inputs = [value.unique() for value in graph.inputs()][int(has_self) :]
        objects: dict[int, tuple[Any, _Part]] = {next(graph.inputs()).unique(): (model._c, self)} if has_self else {}
        self._hold(graph.block(), objects)
        signature = signature_of(method)

        def forward(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return self._run(bound.arguments.values())

        vars(forward)["__signature__"] = signature
        vars(self)["forward"] = forward

    def _hold(self, block: Any, objects: dict[int, tuple[Any, _Part]]) -> None:
        """Store the attributes and constants that the nodes of a block read."""
        for node in block.nodes():
            if node.kind() == "prim::GetAttr":
                owner, part = objects[node.input().unique()]
                name = node.s("name")
                held = owner.getattr(name)
                if isinstance(held, torch._C.ScriptModule):
                    objects[node.output().unique()] = (held, _child(part, name))
                else:
                    self._store(node.output(), part, name, held)
            elif node.kind() == "prim::Constant":
                self._hold_constant(node.output())
            elif node.kind() == "prim::SetAttr":
                raise CaptureError(f"the program sets {node.s('name')} of a module; to fix this, export the eager model")
            for inner in node.blocks():
                self._hold(inner, objects)

    def _hold_constant(self, value: Any) -> None:
        """Store a constant; those of a frozen program have the names of attributes."""
        held, label = value.toIValue(), value.debugName()
        if not isinstance(held, (torch.Tensor, torch.ScriptObject)):
            self._known[value.unique()] = held
            return
        *path, name = label.split(".")[1:] if label.startswith("self.") else [f"constant_{label.replace('.', '_')}"]
        part: _Part = self
        for each in path:
            part = _child(part, each)
        self._store(value, part, name, held)

    def _store(self, value: Any, part: torch.nn.Module, name: str, held: Any) -> None:
        if not isinstance(held, (torch.Tensor, torch.ScriptObject)):
            self._known[value.unique()] = held
        elif isinstance(held, torch.Tensor) and _is_number(value, held):
            self._known[value.unique()] = held.item()
        else:
            self._held[value.unique()] = (part, name)
            table: dict[str, Any] = part._buffers if isinstance(held, torch.Tensor) else vars(part)
            table[name] = held.detach() if isinstance(held, torch.Tensor) else held

    def _run(self, inputs: Any) -> Any:
        """Run the program."""
        env = dict(zip(self._inputs, inputs, strict=True))
        results = self._block(self._graph.block(), env)
        return results[0] if len(results) == 1 else tuple(results)

    def _block(self, block: Any, env: dict[int, Any]) -> list[Any]:
        """Run the nodes of a block; return its outputs."""
        for node in block.nodes():
            results = self._node(node, env)
            env.update(zip((value.unique() for value in node.outputs()), results, strict=True))
        return [env[value.unique()] for value in block.returnNode().inputs()]

    def _node(self, node: Any, env: dict[int, Any]) -> Sequence[Any]:
        """Run a node; return the values of its outputs."""
        kind = node.kind()
        if kind in ("prim::GetAttr", "prim::Constant"):
            unique = node.output().unique()
            if unique in self._held:
                return [getattr(*self._held[unique])]  # by the attribute's name
            known = self._known.get(unique)
            return [list(known) if type(known) is list else known]  # the program may write into it
        args = [env[value.unique()] for value in node.inputs()]
        if kind == "prim::If":
            return self._block(list(node.blocks())[0 if args[0] else 1], env)
        if kind == "prim::Loop":
            return self._loop(next(node.blocks()), args, env)
        structure = _STRUCTURES.get(kind)
        if structure is not None:
            return structure(args)
        try:
            result = call_operator(kind if kind.startswith("prim::") else node.schema().partition("(")[0], args)
        except CaptureError as error:
            raise CaptureError(f"{error}\n  at {_place(node)}") from error
        if node.outputsSize() > 1:
            return list(result)
        return [list(result) if type(result) is tuple else result] if node.outputsSize() else []

    def _loop(self, block: Any, args: Sequence[Any], env: dict[int, Any]) -> list[Any]:
        """Run a loop; unrolled in the graph that is captured."""
        longest, condition, *carried = args
        for index in itertools.count():
            if index >= longest or not condition:
                return carried
            env.update(zip((value.unique() for value in block.inputs()), [index, *carried], strict=True))
            condition, *carried = self._block(block, env)
        raise AssertionError


_STRUCTURES: Mapping[str, Callable[[list[Any]], Sequence[Any]]] = {
    "prim::ListConstruct": lambda args: [args],
    "prim::TupleConstruct": lambda args: [tuple(args)],
    "prim::DictConstruct": lambda args: [dict(zip(args[::2], args[1::2], strict=True))],
    "prim::ListUnpack": lambda args: args[0],
    "prim::TupleUnpack": lambda args: args[0],
    "prim::TupleIndex": lambda args: [args[0][args[1]]],
    "prim::Uninitialized": lambda args: [None],
}
"""Nodes that build and take apart containers."""


def _child(part: torch.nn.Module, name: str) -> _Part:
    """Return a submodule of the program, made at its first use."""
    found = part._modules.get(name)
    if not isinstance(found, _Part):
        part._modules[name] = found = _Part()
    return found


def _place(node: Any) -> str:
    """Return the line of the user's that a node is from, or torch's own."""
    places = [(match[1] or match[3], match[2] or match[4]) for match in _PLACE.finditer(node.sourceRange())]
    file, line = next(
        (place for place in places if SourceLocation(file=place[0]).is_user_code), places[0] if places else ("?", "?")
    )
    return f"File {file}, line {line}"


def _is_number(value: Any, tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a number of a trace, or a scale or zero point."""
    if value.node().kind() == "prim::Constant":
        return tensor.dim() == 0 and tensor.dtype in _NUMBERS
    return tensor.numel() == 1 and all(use.user.kind() in _NUMBER_READERS for use in value.uses())


def _number(convert: Callable[[Any], Any], value: Any) -> Any:
    """Read a number: of a tensor, unless it is the tracer's."""
    if not isinstance(value, torch.Tensor):
        return convert(value)
    if not torch._C._is_tracing():
        return convert(value.item())
    return value.long() if convert is torch.sym_int and value.is_floating_point() else value


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return x / y
    return x // y if rounding_mode == "floor" or (x < 0) == (y < 0) else -(-x // y)


def _slice(x: Any, *given: Any) -> Any:
    """slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[], and slice.Tensor, which has an axis before these"""
    axis, limits = (0, given) if isinstance(x, (list, str)) else (given[0], given[1:])
    return x[(slice(None),) * (axis % x.dim()) + (slice(*limits),)] if axis else x[slice(*limits)]


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _raise(message: str, *_: Any) -> None:
    raise CaptureError(f"the program raises an exception: {message}; to fix this, pass example inputs that it accepts")


_PYTHON: dict[str, Callable[..., Any]] = {
    "aten::size": lambda x, *axis: x.size(*axis) if axis else list(x.shape),
    "aten::dim": lambda x: x.dim(),
    "aten::len": lambda x: len(x) if isinstance(x, (list, dict, str)) else x.size(0),
    "aten::__is__": operator.is_, "aten::__isnot__": operator.is_not, "aten::__not__": operator.not_,
    "aten::__contains__": operator.contains, "aten::__getitem__": operator.getitem, "aten::append": _append,
    "aten::list": list, "aten::format": str.format, "aten::warn": lambda *_: None,
    "aten::slice": _slice, "aten::Bool": functools.partial(_number, bool),
    **dict.fromkeys(("aten::Int", "aten::IntImplicit"), functools.partial(_number, torch.sym_int)),
    **dict.fromkeys(("aten::Float", "aten::FloatImplicit"), functools.partial(_number, torch.sym_float)),
    **dict.fromkeys(("aten::item", "aten::ScalarImplicit"), functools.partial(_number, lambda value: value)),
    "prim::dtype": lambda x: TYPE_CODES.code(x.dtype), "prim::device": lambda x: x.device,
    "prim::min": min, "prim::max": max, "prim::RaiseException": _raise,
    "prim::NumToTensor": lambda value: value, "prim::unchecked_cast": lambda value: value,
}  # fmt: skip
"""Operators on lists and texts, and those that read facts and numbers of tensors."""
_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::add": lambda x, y, alpha=1: x + (y if alpha == 1 else alpha * y),
    "aten::sub": lambda x, y, alpha=1: x - (y if alpha == 1 else alpha * y),
    **{f"aten::{name}": vars(operator)[name] for name in ("mul", "neg", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "aten::__and__": operator.and_, "aten::__or__": operator.or_, "aten::remainder": operator.mod,
    "aten::div": _divide, "aten::floordiv": operator.floordiv, "aten::floor_divide": operator.floordiv,
}  # fmt: skip
"""Operators that Python computes on numbers and lists, and torch on tensors."""


def call_operator(name: str, args: Sequence[Any]) -> Any:
    """Call an operator, such as ``aten::add.Tensor``, with the arguments of its node.

    Raises CaptureError for an operator that nothing here can run.
    """
    packet, _, overload = name.partition(".")
    if packet in _PYTHON:
        return _PYTHON[packet](*args)
    namespace, _, short = packet.partition("::")
    if namespace == "prim":
        raise CaptureError(f"TorchScript's {packet} in a quantized model cannot be exported; to fix this, export the eager model")
    found = getattr(getattr(getattr(torch.ops, namespace), short), overload or "default")  # by the node's name
    leaves = pytree.tree_leaves(list(args))
    kinds = [str(argument.type) for argument in found._schema.arguments]
    of_tensors = any("Tensor" in kind for kind in kinds) and any(isinstance(leaf, (torch.Tensor, StandIn)) for leaf in leaves)
    traced_number = any(kind == "number" and isinstance(given, torch.Tensor) for kind, given in zip(kinds, args, strict=False))
    if packet in _ON_NUMBERS and (traced_number or not of_tensors):
        return _ON_NUMBERS[packet](*args)
    given, named = _bound(found._schema, args)
    if namespace == "aten" and short in QUANTIZING:
        return QUANTIZING[short](*given, **named)
    function: Any = _function(found, args)
    if any(isinstance(leaf, StandIn) for leaf in leaves):
        return call(function, given, named)
    return function(*given, **named)


def _function(found: Any, args: Sequence[Any]) -> Any:
    """Return the function for these arguments.

    An overload takes no numbers in place of tensors. Only torch's Python functions record the tracer's sizes, which are tensors.
    """
    pairs = [(str(argument.type), given) for argument, given in zip(found._schema.arguments, args, strict=False)]
    if any(
        "Tensor" not in kind and any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(given))
        for kind, given in pairs
    ):
        name = found.overloadpacket.__name__
        home = next((owner for owner in (torch, torch._C._nn, torch.Tensor) if hasattr(owner, name)), None)
        if home is None:
            raise CaptureError(
                f"{name} with a size that depends on the input cannot be traced; to fix this, use capture='export'"
            )
        return getattr(home, name)  # by the operator's name
    return found.overloadpacket if any(kind == "Tensor" and isinstance(given, (int, float)) for kind, given in pairs) else found


def _bound(schema: Any, args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Bind arguments to a schema: codes of dtypes become dtypes."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(schema.arguments, args, strict=False):
        values = TYPE_CODES.of_argument(argument)
        if values is not None and type(value) is int:
            value = values[value]
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            given.append(value)
    return given, named
