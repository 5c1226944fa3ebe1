"""Symbolics registered by name, for exports through `onnxexp_torch_onnx`.

torch.onnx documents that `register_custom_op_symbolic` changes every later export of the process. `_REGISTRY` is therefore the
one object of the project that outlives an export.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from onnxexp import MAX_OPSET, Builder, OptionError, SymbolicTable, warn
from onnxexp.torch_ops import schemas
from onnxexp_torch_onnx.call_symbolic import call_symbolic, describe
from onnxexp_torch_onnx.settings import current, settings
from onnxexp_torch_onnx.symbolic_opsets import assigned_symbolics
from onnxexp_torch_onnx.torch_onnx_state import from_torch

Symbolic = Callable[..., Any]
PYTHON_OP = "prim::PythonOp"
_NAME = re.compile(r"^(?P<namespace>[A-Za-z0-9_-]*)::(?P<name>[A-Za-z0-9_.-]+)$")


class SymbolicRegistry:
    """Symbolics by operator and first opset, safe to use from several threads."""

    def __init__(self) -> None:
        self._symbolics: dict[tuple[str, int], Symbolic] = {}
        self._lock = threading.Lock()

    def add(self, operator: str, opset: int, symbolic: Symbolic) -> None:
        """Register a symbolic, in place of an earlier one for the same operator and opset."""
        with self._lock:
            self._symbolics[operator, opset] = symbolic

    def remove(self, operator: str, opset: int) -> bool:
        """Remove a symbolic, and return whether it existed."""
        with self._lock:
            return self._symbolics.pop((operator, opset), None) is not None

    def clear(self) -> None:
        """Remove all symbolics."""
        with self._lock:
            self._symbolics.clear()

    def find(self, operator: str, opset: int) -> Symbolic | None:
        """Return the symbolic of an operator at a target opset, or None.

        Of several, the one with the latest first opset counts.
        """
        with self._lock:
            first = [since for name, since in self._symbolics if name == operator and since <= opset]
            return self._symbolics[operator, max(first)] if first else None

    def entries(self) -> list[tuple[str, Symbolic, int]]:
        """List the symbolics as (operator, symbolic, first opset), in registration order."""
        with self._lock:
            return [(operator, symbolic, opset) for (operator, opset), symbolic in self._symbolics.items()]


_CONVOLUTION = "aten::_convolution"
_CONVOLUTIONS = [f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3)]
_REGISTRY = SymbolicRegistry()
"""The registrations of this process."""


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Symbolic, opset_version: int) -> None:
    """Lower a torch operator with ``symbolic_fn(g, *args)`` from an opset on.

    The symbolic serves all later exports of the process through `onnxexp_torch_onnx`.

    Args:
        symbolic_name: ``namespace::name``. ``prim::PythonOp`` stands for every torch.autograd.Function without a symbolic of its
            own; its symbolic gets the class's name as the keyword `name`.
        symbolic_fn: Called with `g` and a value for each argument of the torch schema, in order.
        opset_version: The first target opset. The last registration for an opset wins.

    Raises OptionError for a malformed name or opset.
    """
    full = _full_name(symbolic_name)
    if not callable(symbolic_fn):
        raise OptionError(f"{symbolic_name}: {symbolic_fn!r} is not callable")
    _REGISTRY.add(full, _opset(opset_version, f"{symbolic_name}: {describe(symbolic_fn)}"), symbolic_fn)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Remove the symbolic of an operator from an opset on, or warn if it is missing."""
    if not _REGISTRY.remove(_full_name(symbolic_name), int(opset_version)):
        warn(f"no symbolic is registered for {symbolic_name} from opset {opset_version} on")


def is_registered(operator: str, opset: int) -> bool:
    """Return whether a symbolic is registered for an operator and this target opset."""
    return _REGISTRY.find(operator, opset) is not None


def symbolic_of(symbolic_name: str, opset: int) -> Symbolic | None:
    """Return the symbolic that is registered for an operator, or None."""
    return _REGISTRY.find(_full_name(symbolic_name), opset)


def clear() -> None:
    """Remove all registered symbolics, between tests for example."""
    _REGISTRY.clear()


def _opset(version: Any, subject: str) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MAX_OPSET:
        raise OptionError(f"{subject} is for opset {version!r}; an opset is a whole number from 1 to {MAX_OPSET}")
    return version


def _full_name(symbolic_name: str) -> str:
    match = _NAME.match(symbolic_name)
    if match is None:
        raise OptionError(f"{symbolic_name!r} is not an operator's name; write namespace::name, as in aten::gelu")
    name = match["name"][:-1] if match["name"].endswith("_") and not match["name"].startswith("_") else match["name"]
    return f"{match['namespace'] or 'aten'}::{name}"


@dataclasses.dataclass(frozen=True)
class RegisteredSymbolics:
    """The registrations at one moment, a plugin for `onnxexp.export`.

    Attributes:
        symbolics: The symbolics of operators, as a table.
        python_ops: The symbolics of ``prim::PythonOp``, by their first opset.
    """

    symbolics: SymbolicTable
    python_ops: dict[int, Symbolic]


def registered(*, torch: bool = False) -> RegisteredSymbolics:
    """Return the current registrations.

    `torch` adds the registrations of torch.onnx itself. A function that was assigned in ``symbolic_opset9`` counts as registered
    for the operator of its name from opset 9 on.
    """
    entries = _REGISTRY.entries()
    own = {(name, opset) for name, _, opset in entries}
    entries += [entry for entry in assigned_symbolics() if (entry[0], entry[2]) not in own]
    own |= {(name, opset) for name, _, opset in entries}
    others = [(_full_name(name), function, opset) for name, function, opset in from_torch()] if torch else []
    entries += [entry for entry in others if (entry[0], entry[2]) not in own]
    table = SymbolicTable("aten", override=True)
    for name, function, opset in entries:
        if (name, opset) in own and not _exists(name):
            warn(f"{describe(function)} is registered for {name}, an operator that torch does not have")
        if name != PYTHON_OP:
            table(name, since=opset)(as_symbolic(function))
        if name == _CONVOLUTION:
            for each in _CONVOLUTIONS:
                if (f"aten::{each}", opset) not in own:
                    table(f"aten::{each}", since=opset)(_convolution_of(each, function))
    return RegisteredSymbolics(table, {opset: function for name, function, opset in entries if name == PYTHON_OP})


def _exists(name: str) -> bool:
    """Return whether torch has the operator.

    Names of Functions always pass, since a Function is known only once it is called.
    """
    return name.startswith(("prim::", "autograd::")) or bool(schemas(name.partition(".")[0]))


def _convolution_of(operator: str, function: Symbolic) -> Callable[..., Sequence[Any]]:
    """Wrap a symbolic for ``aten::_convolution`` as one of a convolution.

    torch's tracer, for which it is written, records that operator for all of them. onnxexp captures ``aten::conv2d`` and others.
    """
    rank = int(operator[-2])

    def call(op: Builder, *given: Any) -> Sequence[Any]:
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups = given
        if isinstance(padding, str):
            op.decline(f"aten::_convolution takes no padding {padding!r}")
        lists = [[each] * rank if isinstance(each, int) else each for each in (stride, padding, dilation, output_padding)]
        flags = (False, False, True, True)  # benchmark, deterministic, cudnn_enabled, allow_tf32
        return call_symbolic(op, function, [input, weight, bias, *lists[:3], transposed, lists[3], groups, *flags])

    def convolution(
        op: Builder, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Sequence[Any]:
        return call(op, x, weight, bias, stride, padding, dilation, False, 0, groups)

    def transposed(
        op: Builder,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Sequence[Any]:
        return call(op, x, weight, bias, stride, padding, dilation, True, output_padding, groups)

    return transposed if "transpose" in operator else convolution


def as_symbolic(function: Symbolic) -> Callable[..., Sequence[Any]]:
    """Wrap a symbolic written for torch.onnx as one of onnxexp's.

    If the symbolic looks up its own operator (``symbolic_opset9.relu`` in a symbolic for ``aten::relu``), the look-up finds the
    symbolic that it replaced.
    """

    def symbolic(op: Builder, *args: Any) -> Sequence[Any]:
        running = current().running
        key = function, op.node.op.partition(".")[0]
        if key in running:
            op.decline(f"{describe(function)} looks up {key[1]} itself, and nothing else lowers it")
        with settings(running=running | {key}):
            return call_symbolic(op, function, args)

    return functools.wraps(function)(symbolic) if inspect.isfunction(function) else symbolic
