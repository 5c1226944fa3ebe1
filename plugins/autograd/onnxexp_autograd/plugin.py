"""The plugin: choose which Functions are captured whole, and lower them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

import onnxexp
import onnxexp_torch_onnx as torch_onnx
from onnxexp.graph import Graph, Node
from onnxexp_autograd.function_ops import Function, FunctionOps
from onnxexp_autograd.local_functions import extract_functions, replace_marks

_OPERATORS = "autograd.operators"
"""The `FunctionOps` of the export."""
_SCOPES = "autograd.scopes"
"""The Functions' names by the scopes that stand for their calls."""


@dataclasses.dataclass(frozen=True)
class _Decision:
    """How a Function is lowered.

    Attributes:
        how: "symbolic" (by a symbolic with `g`), "python op" (by the symbolic registered for all Functions), "table" (by an entry
            of a SymbolicTable), "function" (as a function of the model), or "node" (as one node of a custom domain).
        symbolic: The symbolic, if there is one.
    """

    how: str
    symbolic: Callable[..., Any] | None = None


class _Decisions:
    """The decisions of one export about its Functions."""

    def __init__(self, plugin: Autograd, options: onnxexp.Options) -> None:
        self._plugin, self._options = plugin, options

    def __call__(self, function: Function) -> _Decision | None:
        return self._plugin._decision(function, self._options.claims) or self._default

    @functools.cached_property
    def _default(self) -> _Decision | None:
        return self._plugin._default_decision(self._options)


class Autograd:
    """Export torch.autograd.Function by symbolics, or inline it.

    A call of a Function with a symbolic is captured as one node, ``autograd::MyRelu``, with the Function's own arguments. The
    first of these symbolics wins: `symbolics`; an entry ``SymbolicTable("autograd")("MyRelu")`` of any plugin; the Function's
    `symbolic`; the one registered for ``prim::PythonOp`` through `onnxexp_torch_onnx`. Any other Function is inlined.

    Args:
        symbolics: torch.onnx's kind of symbolics, ``symbolic(g, *args)``, by the Function's class.
        inline: False keeps a Function without a symbolic as one node.
        functions: True turns the inlined forward of a Function without a symbolic into a function of the model.
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
        """Keep Functions with a decision whole, or warn and inline all of them.

        The warning appears if torch lacks the internals that the plugin needs.
        """
        dynamo = context.options.capture in ("auto", "export")  # not under torch.jit.trace
        reason = unavailable(dynamo=dynamo)
        if reason:
            fix = "install a newer onnxexp-plugin-autograd or an older torch"
            onnxexp.warn(f"{reason}: autograd Functions are inlined without their symbolics; {fix}")
            return contextlib.nullcontext()
        return self._capture(context, dynamo)

    @contextlib.contextmanager
    def _capture(self, context: onnxexp.ExportContext, dynamo: bool) -> Iterator[None]:
        from onnxexp_autograd.function_capture import capture_functions  # raises if `unavailable` has a reason

        with capture_functions(_Decisions(self, context.options), dynamo=dynamo) as capture:
            context.plugin_data[_OPERATORS] = capture.operators
            yield

    def _decision(self, function: Function, claims: frozenset[str]) -> _Decision | None:
        """Return the decision for a Function with a symbolic, or None without one."""
        if function in self._symbolics:
            return _Decision("symbolic", self._symbolics[function])
        if f"autograd::{function.__name__}" in claims:
            return _Decision("table")
        symbolic = getattr(function, "symbolic", None)  # optional in the user's class
        return None if symbolic is None else _Decision("symbolic", symbolic)

    def _default_decision(self, options: onnxexp.Options) -> _Decision | None:
        """Return the decision for a Function without a symbolic, or None to inline it."""
        settings = torch_onnx.current()
        python_op = settings.python_op(options.opset)
        if python_op is not None:
            return _Decision("python op", python_op)
        if self._functions:
            return _Decision("function")
        return None if self._inline and settings.autograd_inlining else _Decision("node")

    @onnxexp.hookimpl
    def pre_pass(self, context: onnxexp.ExportContext) -> Callable[[Graph], bool]:
        """Give a Function's node the Function's own arguments, constants included."""

        def function_arguments(graph: Graph) -> bool:
            operators = _operators(context)
            found = operators is not None and _restore_calls(graph, operators)
            if self._functions:
                scopes = context.plugin_data[_SCOPES] = replace_marks(graph)
                found = found or bool(scopes)
            return found

        return function_arguments

    @onnxexp.hookimpl
    def post_pass(self, context: onnxexp.ExportContext) -> Callable[[Any], bool] | None:
        """Turn scopes of Functions into functions of the model, if `functions` is set."""

        def functions_of_the_model(model: Any) -> bool:
            scopes = context.plugin_data.get(_SCOPES, {})
            extract_functions(model, scopes, self._domain)
            return bool(scopes)

        return functions_of_the_model if self._functions else None

    @onnxexp.hookimpl(namespaces=["autograd"])
    def lower_node(self, op: onnxexp.Builder, node: Node) -> Any:
        """Lower a Function's node with its symbolic."""
        operators = _operators(op.context)
        operator = operators.in_graph(node.op) if operators is not None else None
        if operator is None or operator.form.decision.how == "table":
            return None
        decision, args = operator.form.decision, operator.fill(op.args)
        if decision.how == "node":
            return self._node(op, node, args)
        named = operator.function if decision.how == "python op" else None
        return torch_onnx.call_symbolic(op, decision.symbolic, args, constants=False, python_class=named)

    def _node(self, op: onnxexp.Builder, node: Node, args: Sequence[Any]) -> Any:
        """Lower to one node of a custom domain.

        Arguments other than tensors become attributes: ``arg2`` or, nested, ``arg2_0``.
        """
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


def _restore_calls(graph: Graph, operators: FunctionOps) -> bool:
    """Rename the captured operators; return whether there are any.

    A table's entry gets the Function's own arguments.
    """
    found = False
    for node in graph.walk():
        operator = operators.captured(node.op)
        if operator is not None:
            found, node.op = True, operator.graph_name
            if operator.form.decision.how == "table":
                node.args = operator.fill(node.args)
    return found


def _operators(context: onnxexp.ExportContext) -> FunctionOps | None:
    """Return the operators of the export, or None if no Function could be captured."""
    operators: FunctionOps | None = context.plugin_data.get(_OPERATORS)
    return operators


def _is_attribute(value: Any) -> bool:
    """Return whether ONNX has an attribute type for a value."""
    kinds = {type(each) for each in value} if isinstance(value, (list, tuple)) else {type(value)}
    return len(kinds) == 1 and kinds <= {bool, int, float, str}


@functools.cache
def unavailable(*, dynamo: bool) -> str:
    """Return why this torch cannot keep Functions whole, or "" if it can.

    `dynamo` states whether Dynamo may run inside the capture.
    """
    try:
        from onnxexp_autograd import function_capture, interception, torch_internals  # noqa: F401 - imports every name that the plugin uses of torch

        if dynamo:
            torch_internals.dynamo_allowed_ids()
    except (ImportError, AttributeError) as error:
        return f"torch {torch.__version__} lacks internals that onnxexp-plugin-autograd needs ({error})"
    try:
        with torch_internals.disable_current_modes():  # the user may have called the export inside a fake mode
            works = interception.works()
    except (
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # from torch's code
        return f"torch {torch.__version__} calls autograd Functions in a new way ({error})"
    return "" if works else f"torch {torch.__version__} calls autograd Functions in a new way"
