"""Find the symbolic for a node, among hooks first and then tables.

Errors have the name of the plugin.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from onnxexp._builder.builder import Builder, Declined, state_of
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError, OpsetError, summary
from onnxexp._neutral_graph import Node
from onnxexp._plugins.loading import Plugins
from onnxexp._plugins.plugin import Implementation

Who: TypeAlias = Any
"""A Candidate or an Implementation; `str` names its plugin and its place."""


class Resolution(NamedTuple):
    """The result of lowering one node.

    Attributes:
        results: The lowered values; None where no plugin lowers the node.
        plugin: The name of the plugin.
        who: The symbolic or hook that was used.
        refusal: The reason why the hooks and symbolics before it declined.
    """

    results: list[Any] | None
    plugin: str = ""
    who: Who = None
    refusal: LoweringError | None = None


class SymbolicResolver:
    """A resolver that calls hooks, then symbolics, until one does not decline."""

    def __init__(self, builder: Builder, plugins: Plugins) -> None:
        self._builder, self._state = builder, state_of(builder)
        self._dispatcher = plugins.dispatcher
        self._used = plugins.used
        self._hooks = plugins.implementations("lower_node")
        self._hooks_of_namespaces: dict[str, list[Implementation]] = {}

    def __bool__(self) -> bool:
        return bool(self._hooks or self._dispatcher)

    def resolve(self, node: Node) -> Resolution:
        """Lower a node.

        Raises LoweringError, with the plugin's file and line, where its code fails or returns a wrong type.
        """
        refusal: LoweringError | None = None
        before = self._state.provenance
        given = {"op": self._builder, "node": node, "context": self._builder.context} if self._hooks else {}
        for hook in self._hooks_for(node.op.partition("::")[0]):
            try:
                results = self._call(hook, hook.plugin.name, hook.name, hook.function, [given[name] for name in hook.parameters])
            except Declined as error:
                refusal = error
                continue
            if results is not None:
                return self._resolution(results, hook.plugin.name, hook, node)
        candidates = self._dispatcher.candidates(node.op, self._builder.opset)
        args = self._builder.args if candidates else []
        for candidate in candidates:
            if reason := candidate.symbolic.refusal(args):
                refusal = Declined(f"{candidate}: {reason}")
                continue
            try:
                symbolic = candidate.symbolic
                results = self._call(candidate, candidate.source.plugin, symbolic.name, symbolic.function, (self._builder, *args))
            except Declined as error:
                refusal = error
                continue
            return self._resolution(results, candidate.source.plugin, candidate, node)
        self._state.provenance = before
        return Resolution(None, refusal=refusal or self._other_opset(node))

    def _hooks_for(self, namespace: str) -> list[Implementation]:
        if (found := self._hooks_of_namespaces.get(namespace)) is None:
            found = [hook for hook in self._hooks if not hook.namespaces or namespace in hook.namespaces]
            self._hooks_of_namespaces[namespace] = found
        return found

    def _other_opset(self, node: Node) -> LoweringError | None:
        """Return the error for a node that a plugin lowers at another opset only."""
        if not (registered := self._dispatcher.registered(node.op)):
            return None
        target, known = self._builder.opset, registered[0]
        first = min((each.symbolic.since for each in registered if each.symbolic.since > target), default=None)
        limit = f"lowers {node.op} from opset {first} on" if first else f"serves up to opset {known.symbolic.until}"
        return OpsetError(f"the plugin {known.source.plugin!r} {limit}; the target is opset {target}", first)

    def _call(self, who: Who, plugin: str, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        self._state.provenance = self._state.provenance.lowered_by(plugin, name)
        try:
            return function(*args)
        except LoweringError:
            raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a plugin may raise anything, SystemExit too: the error names the plugin
            line = _line(error, function)
            raise LoweringError(f"{who} failed{line}: {summary(error)}") from error

    def _resolution(self, results: Any, plugin: str, who: Who, node: Node) -> Resolution:
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        wanted = len(node.outputs)
        if wanted and (len(listed) != wanted or all(result is None for result in listed)):
            raise LoweringError(f"{who} returned {results!r}; {wanted} Tensors were expected")
        for result in listed[:wanted]:
            if isinstance(result, Tensor):
                if not result.belongs_to(self._builder):
                    raise LoweringError(f"{who} returned {result!r}, a value of another export; keep no Tensor between calls")
            elif not isinstance(result, (bool, int, float, type(None))):
                raise LoweringError(f"{who} returned {results!r}; {wanted} Tensors were expected")
        self._used.add(plugin)
        return Resolution(listed[:wanted], plugin, who)


def _line(error: BaseException, function: Callable[..., Any]) -> str:
    """Describe the last line of the symbolic's own file in the traceback."""
    code = getattr(function, "__code__", None)  # a callable object has none
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    return f" in line {frames[-1].lineno} ({frames[-1].line})" if frames else ""
