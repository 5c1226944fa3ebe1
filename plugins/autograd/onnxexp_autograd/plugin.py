"""The plugin: which Functions are kept whole while capturing, and what becomes of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch.utils import _pytree as pytree

import onnxexp
import onnxexp_torch_onnx as torch_onnx
from onnxexp_autograd.availability import unavailable
from onnxexp_autograd.functions import calls_as_functions, marks_as_scopes
from onnxexp_autograd.operators import Function, kept, known_as

__all__ = ["Autograd"]

_FUNCTIONS = "autograd.functions"
"""The classes that the capture kept. One made in a forward has no other owner until it is lowered."""
_SCOPES = "autograd.scopes"
"""The Functions' names by the scopes that stand for their calls."""


@dataclasses.dataclass(frozen=True)
class _Decision:
    """What becomes of a Function: `how` is "symbolic" (called with `g`), "python op" (the same, registered for all Functions),
    "table" (a SymbolicTable has an entry for it), "function" (the inlined forward is a function of the model) or "node" (one node
    of a domain of its own)."""

    how: str
    symbolic: Callable[..., Any] | None = None


class _Deciding:
    """What becomes of the Functions that one export meets."""

    def __init__(self, plugin: Autograd, options: onnxexp.Options) -> None:
        self._plugin, self._options = plugin, options

    def __call__(self, function: Function) -> _Decision | None:
        return self._plugin._decision(function, self._options.claims) or self._other

    @functools.cached_property
    def _other(self) -> _Decision | None:
        return self._plugin._without_symbolic(self._options)


class Autograd:
    """Functions in the captured graph.

    A call of a Function that somebody has a symbolic for is one node, ``autograd::MyRelu``, with the Function's own arguments. In
    this order count: `symbolics`; an entry ``SymbolicTable("autograd")("MyRelu")`` of any plugin; the Function's `symbolic`; what
    was registered for ``prim::PythonOp`` through `onnxexp_torch_onnx`. Any other is inlined.

    Args:
        symbolics: Symbolics as torch.onnx has them, ``symbolic(g, *args)``, by the Function's class.
        inline: False keeps a Function without a symbolic as one node.
        functions: True makes the inlined forward of a Function without a symbolic a function of the model.
        domain: The ONNX domain of such nodes and functions.
    """

    def __init__(
        self,
        symbolics: Mapping[Function, Callable[..., Any]] | None = None,
        *,
        inline: bool = True,
        functions: bool = False,
        domain: str = "autograd",
    ) -> None:
        self._symbolics = dict(symbolics or {})
        self._inline = inline
        self._functions = functions
        self._domain = domain

    @onnxexp.hookimpl
    def capture_context(self, context: onnxexp.ExportContext) -> AbstractContextManager[Any]:
        """Keep the Functions whole that have a decision; where this torch does not allow it, warn and inline them all."""
        reason = unavailable()
        if reason:
            cure = "install a newer onnxexp-plugin-autograd or an older torch"
            onnxexp.warn(f"{reason}: autograd Functions are inlined without their symbolics; {cure}")
            return contextlib.nullcontext()
        return self._capture(context)

    @contextlib.contextmanager
    def _capture(self, context: onnxexp.ExportContext) -> Iterator[None]:
        from onnxexp_autograd.keeping import keeping  # fails where `unavailable` has a reason

        dynamo = context.options.capture in ("auto", "export")  # not under torch.jit.trace
        with keeping(_Deciding(self, context.options), dynamo=dynamo) as capture:
            context.plugin_data[_FUNCTIONS] = capture.functions
            yield

    def _decision(self, function: Function, claims: frozenset[str]) -> _Decision | None:
        """What somebody's symbolic makes of a Function."""
        if function in self._symbolics:
            return _Decision("symbolic", self._symbolics[function])
        if f"autograd::{function.__name__}" in claims:
            return _Decision("table")
        symbolic = getattr(function, "symbolic", None)  # the class may have one
        return None if symbolic is None else _Decision("symbolic", symbolic)

    def _without_symbolic(self, options: onnxexp.Options) -> _Decision | None:
        """What becomes of a Function that nobody has a symbolic for."""
        settings = torch_onnx.current()
        python_op = settings.python_op(options.opset)
        if python_op is not None:
            return _Decision("python op", python_op)
        if self._functions:
            return _Decision("function")
        return None if self._inline and settings.autograd_inlining else _Decision("node")

    @onnxexp.hookimpl
    def pre_pass(self, context: onnxexp.ExportContext) -> Callable[[onnxexp.Graph], bool]:
        """In the graph a Function's node has the Function's arguments, its constants among them."""

        def function_arguments(graph: onnxexp.Graph) -> bool:
            found = False
            for node in graph.walk():
                node.op = known_as(node.op)
                record = kept(node.op)
                found = found or record is not None
                if record is not None and record.form.decision.how == "table":
                    node.args = record.fill(node.args)
            if self._functions:
                scopes = context.plugin_data[_SCOPES] = marks_as_scopes(graph)
                found = found or bool(scopes)
            return found

        return function_arguments

    @onnxexp.hookimpl
    def post_pass(self, context: onnxexp.ExportContext) -> Callable[[Any], bool] | None:
        """Make functions of the model from the forwards of Functions, where `functions` requests it."""

        def functions_of_the_model(model: Any) -> bool:
            scopes = context.plugin_data.get(_SCOPES, {})
            calls_as_functions(model, scopes, self._domain)
            return bool(scopes)

        return functions_of_the_model if self._functions else None

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: onnxexp.Node) -> Any:
        """A Function's node through its symbolic."""
        record = kept(node.op)
        if record is None or record.form.decision.how == "table":
            return None
        function = record.function()
        decision, args = record.form.decision, record.fill(op.args)
        if decision.how == "node":
            return self._node(op, node, args)
        named = function if decision.how == "python op" else None
        return torch_onnx.call_symbolic(op, decision.symbolic, args, constants=False, python_class=named)

    def _node(self, op: onnxexp.Builder, node: onnxexp.Node, args: Sequence[Any]) -> Any:
        """One node of its own domain; the arguments that are no tensors are its attributes, ``arg2`` or, nested, ``arg2_0``."""
        name = node.op.partition("::")[2].partition(".")[0]
        attributes: dict[str, Any] = {}
        for index, arg in enumerate(args):
            leaves = pytree.tree_leaves(arg)
            if _is_attribute(arg) or (len(leaves) == 1 and leaves[0] is arg):
                attributes[f"arg{index}"] = arg
            else:
                attributes |= {f"arg{index}_{number}": leaf for number, leaf in enumerate(leaves)}
        inputs = [arg for arg in pytree.tree_leaves(list(args)) if isinstance(arg, onnxexp.Tensor)]
        known = {
            key: value if _is_attribute(value) else str(value)
            for key, value in attributes.items()
            if value is not None and not isinstance(value, onnxexp.Tensor)
        }
        return list(op.domain(self._domain).call(name, *inputs, outputs=len(node.outputs), **known))


def _is_attribute(value: Any) -> bool:
    """Has ONNX an attribute of this kind?"""
    kinds = {type(each) for each in value} if isinstance(value, (list, tuple)) else {type(value)}
    return len(kinds) == 1 and kinds <= {bool, int, float, str}
