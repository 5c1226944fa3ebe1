"""Asking those who can lower a node, one after the other, and telling whose code it was where that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from onnxexp.builder.builder import Builder, Declined
from onnxexp.builder.tensor import Tensor
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.graph import Node
from onnxexp.plugins.loading import Implementation, Plugins

__all__ = ["Answer", "Asking"]

Who: TypeAlias = Any
"""A Candidate or an Implementation: its `str` says whose code it is and where."""


class Answer(NamedTuple):
    """What a node lowers to (None: nobody lowers it), who says so, and why those asked before did not."""

    results: list[Any] | None
    plugin: str = ""
    who: Who = None
    refusal: LoweringError | None = None


class Asking:
    """The `lower_node` hooks, then the tables, in their order; who declines is passed over."""

    def __init__(self, builder: Builder, plugins: Plugins) -> None:
        self._builder = builder
        self._dispatcher = plugins.dispatcher
        self._used = plugins.used
        self._hooks = [(each, _positional(each)) for each in plugins.implementations("lower_node")]

    def __bool__(self) -> bool:
        return bool(self._hooks or self._dispatcher)

    def ask(self, node: Node) -> Answer:
        """Raises LoweringError naming the plugin and its file and line where its code fails or gives what it may not."""
        refusal: LoweringError | None = None
        for implementation, function in self._hooks:
            try:
                results = self._call(implementation, function, self._builder, node)
            except Declined as error:
                refusal = error
                continue
            if results is not None:
                return self._answer(results, implementation.plugin.name, implementation, node)
        candidates = self._dispatcher.candidates(node.op, self._builder.opset)
        args = self._builder.args if candidates else []
        for candidate in candidates:
            reason = candidate.symbolic.refusal(args)
            if reason:
                refusal = Declined(f"{candidate}: {reason}")
                continue
            try:
                results = self._call(candidate, candidate.symbolic.function, self._builder, *args)
            except Declined as error:
                refusal = error
                continue
            return self._answer(results, candidate.source.plugin, candidate, node)
        return Answer(None, refusal=refusal or self._later(node))

    def _later(self, node: Node) -> LoweringError | None:
        """Why nobody is asked at this opset, where somebody is at another."""
        opsets = self._dispatcher.opsets(node.op)
        if not opsets:
            return None
        target = self._builder.opset
        first = next((opset for opset in opsets if opset > target), None)
        claim = self._dispatcher.why(node.op, target)[0]
        return OpsetError(
            f"the plugin {claim.plugin!r} lowers {node.op} from opset {first} on; the target is opset {target}"
            if first
            else f"the plugin {claim.plugin!r} {claim.reason}; the target is opset {target}",
            first,
        )

    def _call(self, who: Who, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except (Declined, OpsetError, LoweringError):
            raise
        except Exception as error:  # a plugin may be anyone's: whatever it raises is told with whose it is
            line = _line(error, function)
            raise LoweringError(f"{who} failed{line}: {type(error).__name__}: {error}") from error

    def _answer(self, results: Any, plugin: str, who: Who, node: Node) -> Answer:
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        wanted = len(node.outputs)
        if len(listed) < wanted or (wanted and listed[0] is None and all(result is None for result in listed)):
            raise LoweringError(f"{who} returned {results!r}; {wanted} Tensors were expected")
        for result in listed[:wanted]:
            if isinstance(result, Tensor):
                if not result.belongs_to(self._builder):
                    raise LoweringError(f"{who} returned {result!r}, a value of another export; keep no Tensor between calls")
            elif not isinstance(result, (bool, int, float, type(None))):
                raise LoweringError(f"{who} returned {results!r}; {wanted} Tensors were expected")
        self._used.add(plugin)
        return Answer(listed[:wanted], plugin, who)


def _positional(implementation: Implementation) -> Callable[[Builder, Node], Any]:
    """The hook's function as one of (op, node): it is called for every node, so nothing is looked up by name."""
    if implementation.parameters == ("op", "node"):
        return implementation.function
    return lambda op, node: implementation(op=op, node=node, context=op.context)


def _line(error: Exception, function: Callable[..., Any]) -> str:
    """The last line of the symbolic's own file in the traceback."""
    code = getattr(function, "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    return f" in line {frames[-1].lineno} ({frames[-1].line})" if frames else ""
