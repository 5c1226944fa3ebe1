"""The passes of one export: whose they are, in what order they run, how long they took, who broke the graph.

First the plugins' passes, by the plugins' names, then the core's own clean-up.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeVar

import onnx_ir as ir

from onnxexp.errors import OptionError, PassError
from onnxexp.graph import Graph
from onnxexp.options import Options
from onnxexp.ownership import owned
from onnxexp.passes import invariants
from onnxexp.passes.batch_norm import fold_batch_norm
from onnxexp.passes.concat import flatten_concat
from onnxexp.plugins import Plugin, Plugins
from onnxexp.suggest import nearest

__all__ = ["CORE", "Pass", "Passes"]

CORE = "core"
Subject = TypeVar("Subject", Graph, ir.Model)


@dataclasses.dataclass(eq=False)
class Pass(Generic[Subject]):
    """A pass with its owner: the plugin's name, or "core"; `whose` says it in messages.

    `needed` says of a finished model's operators whether the pass may have something to do there.
    """

    plugin: str
    name: str
    run: Callable[[Subject], Any]
    whose: Plugin | str = "the core"
    needed: Callable[[Collection[str]], bool] = lambda _: True

    @functools.cached_property
    def id(self) -> str:
        return f"{self.plugin}/{self.name}"


_CLEAN_UP: tuple[Pass[ir.Model], ...] = (
    Pass(CORE, "flatten-concat", flatten_concat, needed=lambda operators: "Concat" in operators),
    Pass(CORE, "fold-batch-norm", fold_batch_norm, needed=lambda operators: "BatchNormalization" in operators),
)


class Passes:
    """The passes of one export.

    Attributes:
        seconds: What each that ran took, by ``plugin/name``.

    Raises OptionError where `skip_passes` names one that nobody brings, PassError where a plugin's hook fails.
    """

    def __init__(self, plugins: Plugins, options: Options) -> None:
        self.seconds: dict[str, float] = {}
        self._plugins = plugins
        self._options = options
        self._pre: list[Pass[Graph]] = _collected(plugins, "pre_pass", options)
        self._post: list[Pass[ir.Model]] = [*_collected(plugins, "post_pass", options), *_CLEAN_UP]
        if options.skip_passes:
            _check_skipped(options.skip_passes, [*self._pre, *self._post])
        if not options.fold:
            self._post = [each for each in self._post if each.id != f"{CORE}/fold-batch-norm"]

    def pre(self, graph: Graph) -> None:
        """Run the plugins' passes on the captured graph. Raises PassError."""
        self._run(self._pre, graph, invariants.check_graph)

    def post(self, model: ir.Model) -> None:
        """Run all passes on the finished model, unless none of them has anything to do there. Raises PassError."""
        operators = {node.op_type for node in model.graph}
        if self._options.debug or any(each.needed(operators) for each in self._post):
            self._run(self._post, owned(model), invariants.check_model)

    def _run(self, passes: Sequence[Pass[Subject]], subject: Subject, check: Callable[[Subject], str]) -> None:
        before, skipped = invariants.contract(subject), self._options.skip_passes
        for each in passes:
            if skipped and (each.name in skipped or each.id in skipped):
                continue
            start = time.perf_counter()
            try:
                result = each.run(subject)
            except Exception as error:  # anyone's code: told with whose it is
                raise PassError(f"the pass {each.id} of {each.whose} failed: {type(error).__name__}: {error}") from error
            self.seconds[each.id] = time.perf_counter() - start
            if each.plugin == CORE and not _modified(result) and not self._options.debug:
                continue  # our own say the truth of it, anyone else's are looked at
            broken = _misused(result, subject) or invariants.changed(before, subject)
            if not broken and self._options.debug:
                broken = check(subject)
            if broken:
                raise PassError(
                    f"the pass {each.id} of {each.whose} broke the graph: {broken}; skip_passes={[each.id]} leaves it out"
                )
            if each.plugin != CORE and _modified(result):
                self._plugins.used.add(each.plugin)


def _check_skipped(skipped: Sequence[str], known: Sequence[Pass[Any]]) -> None:
    names = {name for each in known for name in (each.name, each.id)}
    for name in skipped:
        if name not in names:
            listed = ", ".join(dict.fromkeys(each.id for each in known))
            raise OptionError(f"skip_passes: there is no pass {name!r}{nearest(name, names)}; there are {listed}")


def _misused(result: Any, subject: Any) -> str:
    returned = result.model if isinstance(result, ir.passes.PassResult) else result
    if returned is None or returned is subject or isinstance(returned, bool):
        return ""
    return f"it returned {type(returned).__name__} instead of changing the {type(subject).__name__} in place"


def _modified(result: Any) -> bool:
    """Did the pass change anything? One that does not say so may have."""
    return bool(result.modified) if isinstance(result, ir.passes.PassResult) else result is not False


def _collected(plugins: Plugins, hook: str, options: Options) -> list[Pass[Any]]:
    found: list[Pass[Any]] = []
    for implementation in plugins.implementations(hook):
        try:
            given = implementation(options=options)
        except Exception as error:  # anyone's code: told with whose it is
            raise PassError(f"{implementation} failed: {type(error).__name__}: {error}") from error
        for each in given if isinstance(given, (list, tuple)) else () if given is None else (given,):
            if not callable(each):
                raise PassError(f"{implementation} gives {each!r}; a pass is called with what it changes")
            needed = getattr(each, "needed", None) or Pass.needed
            found.append(Pass(implementation.plugin.name, _name(each), each, implementation.plugin, needed))
    return found


def _name(each: Any) -> str:
    """Its own `name`, or its class's or function's, in kebab-case."""
    given = getattr(each, "name", None) or getattr(each, "__name__", None)
    return _kebab(given if isinstance(given, str) else type(each).__name__)


@functools.lru_cache(maxsize=256)
def _kebab(name: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()
    return name.strip("-").removesuffix("-pass")
