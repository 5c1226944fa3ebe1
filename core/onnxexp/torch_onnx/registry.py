"""Symbolics that are registered by name, as torch.onnx has them; exports through `onnxexp.torch_onnx` use them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp.builder.builder import Builder
from onnxexp.errors import OptionError
from onnxexp.symbolics.table import SymbolicTable
from onnxexp.torch_onnx.call_symbolic import call_symbolic, described
from onnxexp.torch_onnx.interop import from_torch
from onnxexp.user_warnings import warn
from onnxexp.version import MAX_OPSET

__all__ = ["Registered", "register_custom_op_symbolic", "registered", "unregister_custom_op_symbolic"]

PYTHON_OP = "prim::PythonOp"
_NAME = re.compile(r"^(?P<namespace>[A-Za-z0-9_-]*)::(?P<name>[A-Za-z0-9_.-]+)$")
_REGISTERED: dict[str, dict[int, Callable[..., Any]]] = {}
_LOCK = threading.Lock()


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Lower a torch operator with ``symbolic_fn(g, *args)`` from an opset on, for all exports through `onnxexp.torch_onnx`.

    Args:
        symbolic_name: ``namespace::name``; ``prim::PythonOp`` stands for every torch.autograd.Function that has no symbolic of
            its own, and its symbolic gets the class's name as the keyword `name`.
        symbolic_fn: Called with `g` and a value for each argument of the torch schema, in order.
        opset_version: The first target opset that it serves. Of two for the same opset the last one counts.

    Raises OptionError for a name that is no operator's, and for an opset that is none.
    """
    full = _full(symbolic_name)
    if not callable(symbolic_fn):
        raise OptionError(f"{symbolic_name}: {symbolic_fn!r} is not callable")
    opset = _opset(opset_version, f"{symbolic_name}: {described(symbolic_fn)}")
    with _LOCK:
        _REGISTERED.setdefault(full, {})[opset] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take back what was registered for an operator from an opset on; a warning where nothing was."""
    with _LOCK:
        if _REGISTERED.get(_full(symbolic_name), {}).pop(int(opset_version), None) is None:
            warn(f"no symbolic is registered for {symbolic_name} from opset {opset_version} on")


def _opset(version: Any, whose: str) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MAX_OPSET:
        raise OptionError(f"{whose} is for opset {version!r}; an opset is a whole number from 1 to {MAX_OPSET}")
    return version


def _full(symbolic_name: str) -> str:
    match = _NAME.match(symbolic_name)
    if match is None:
        raise OptionError(f"{symbolic_name!r} is no operator's name; it is written namespace::name, as in aten::gelu")
    name = match["name"][:-1] if match["name"].endswith("_") and not match["name"].startswith("_") else match["name"]
    return f"{match['namespace'] or 'aten'}::{name}"


@dataclasses.dataclass(frozen=True)
class Registered:
    """What is registered at one moment: a plugin, to be passed to ``onnxexp.export(plugins=[...])`` too.

    Attributes:
        symbolics: The table of the operators' symbolics.
        python_ops: Those for Functions, by opset.
    """

    symbolics: SymbolicTable
    python_ops: dict[int, Callable[..., Any]]


def registered(*, torch: bool = False) -> Registered:
    """What is registered now; `torch`: also what was registered with torch.onnx itself."""
    with _LOCK:
        listed = [(name, function, opset) for name, versions in _REGISTERED.items() for opset, function in versions.items()]
    known = {(name, opset) for name, _, opset in listed}
    theirs = [(_full(name), function, opset) for name, function, opset in from_torch()] if torch else []
    listed += [entry for entry in theirs if (entry[0], entry[2]) not in known]
    table = SymbolicTable("aten", override=True)
    for name, function, opset in listed:
        if (name, opset) in known and not _exists(name):
            warn(f"{described(function)} is registered for {name}, an operator that torch does not have")
        if name != PYTHON_OP:
            table(name, since=opset)(as_symbolic(function))
    return Registered(table, {opset: function for name, function, opset in listed if name == PYTHON_OP})


def _exists(name: str) -> bool:
    """Is it an operator of torch's? A Function's name says nothing before the Function is called."""
    return name.startswith(("prim::", "autograd::")) or bool(torch._C._jit_get_schemas_for_operator(name.partition(".")[0]))


def as_symbolic(function: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    """A symbolic written for torch.onnx as one of onnxexp's.

    Where it looks up its own operator (``symbolic_opset9.relu`` in a symbolic for ``aten::relu``), that is what served before it.
    """

    def symbolic(op: Builder, *args: Any) -> Sequence[Any]:
        running: set[Any] = op.notes.setdefault(as_symbolic, set())
        key = function, op.node.op.partition(".")[0]
        if key in running:
            op.decline(f"{described(function)} asks for {key[1]} itself, and nobody else lowers it")
        running.add(key)
        try:
            return call_symbolic(op, function, args)
        finally:
            running.remove(key)

    return functools.wraps(function)(symbolic) if inspect.isfunction(function) else symbolic
