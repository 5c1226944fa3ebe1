"""Order, skip, run, time and check the passes of one export."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import onnx_ir as ir

from onnxexp._capture.foreign_frontend import check_graph
from onnxexp._errors import OptionError, PassError
from onnxexp._neutral_graph import Graph
from onnxexp._passes import pass_checks
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.loading import Plugins
from onnxexp._plugins.plugin import Plugin
from onnxexp._request.export_context import ExportContext
from onnxexp._suggest import nearest
from onnxexp._user_warnings import warn

Subject = TypeVar("Subject", Graph, ir.Model)


@dataclasses.dataclass(frozen=True, eq=False)
class _Pass(Generic[Subject]):
    """A pass and its plugin."""

    plugin: Plugin
    name: str
    run: Callable[[Subject], Any]

    @property
    def id(self) -> str:
        return f"{self.plugin.name}/{self.name}"

    def __str__(self) -> str:
        return f"the pass {self.id} of {self.plugin}"


class Passes:
    """The passes of one export.

    Attributes:
        seconds: The time of each pass that ran, by ``plugin/name``.

    Raises:
        OptionError: `skip_passes` names an unknown pass.
        PassError: A plugin's hook fails.
    """

    def __init__(self, plugins: Plugins, context: ExportContext) -> None:
        self.seconds: dict[str, float] = {}
        self._plugins = plugins
        self._options, self._plugin_data = context.options, context.plugin_data
        self._pre: list[_Pass[Graph]] = _collected(plugins, "pre_pass", context)
        self._post: list[_Pass[ir.Model]] = _collected(plugins, "post_pass", context)
        every: list[_Pass[Any]] = [*self._pre, *self._post]
        known = list(dict.fromkeys(each.id for each in every))
        names = {*known, *(each.name for each in every)}
        loaded = {plugin.name for plugin in plugins.loaded}
        for name in context.options.skip_passes:
            owner, slash, _ = name.rpartition("/")
            if slash and owner not in loaded:  # a team shares its configuration
                warn(f"`skip_passes` has no effect on {name!r}: the plugin {owner!r}{nearest(owner, loaded)} takes no part")
            elif name not in names:
                raise OptionError(f"skip_passes: there is no pass {name!r}{nearest(name, names)}; there are {', '.join(known)}")

    @property
    def post_names(self) -> list[str]:
        """The passes that `post` runs, as ``plugin/name``."""
        return [each.id for each in self._post if not self._skipped(each)]

    def pre(self, graph: Graph) -> None:
        """Run the plugins' passes on the captured graph.

        Raises PassError where a pass fails or breaks the graph.
        """
        self._run(self._pre, graph, check_graph)

    def post(self, model: ir.Model, count: int | None = None) -> None:
        """Run all passes, or the first `count` of them, on the finished model.

        Raises PassError where a pass fails or breaks the model.
        """
        self._run([each for each in self._post if not self._skipped(each)][:count], model, pass_checks.check_model)
        self._plugin_data.clear()  # it may hold Tensors, and these the builder and the weights

    def _run(self, passes: Sequence[_Pass[Subject]], subject: Subject, check: Callable[[Subject], str]) -> None:
        before = pass_checks.interface_of(subject)
        valid: bool | None = None
        for each in passes:
            if self._skipped(each):
                continue
            checked = self._options.debug
            if not checked and not each.plugin.own:
                valid = not check(subject) if valid is None else valid  # no pass is to blame for what was refused before
                checked = valid
            start = time.perf_counter()
            with calling(each.plugin, each, PassError):
                result = each.run(subject)
            self.seconds[each.id] = time.perf_counter() - start
            broken = _misused(result, subject) or pass_checks.describe_change(before, subject)
            if not broken and checked:
                broken = check(subject)
            if broken:
                raise PassError(f"{each} broke the graph: {broken}; skip_passes={[each.id]} leaves it out")
            # a pass that returns nothing may have changed something
            if result.modified if isinstance(result, ir.passes.PassResult) else result is not False:
                self._plugins.used.add(each.plugin.name)
                if isinstance(subject, ir.Model):
                    _sign(subject, each.id)

    def _skipped(self, each: _Pass[Any]) -> bool:
        return each.name in self._options.skip_passes or each.id in self._options.skip_passes


def _sign(model: ir.Model, made_by: str) -> None:
    """Write a pass's name into the nodes that it made.

    All other nodes have metadata already.
    """
    for node in model.graph.all_nodes():
        if not node.metadata_props:
            node.metadata_props["onnxexp.pass"] = made_by


def _misused(result: Any, subject: Any) -> str:
    returned = result.model if isinstance(result, ir.passes.PassResult) else result
    if returned is None or returned is subject or isinstance(returned, bool):
        return ""
    return f"it returned {type(returned).__name__} instead of changing the {type(subject).__name__} in place"


def _collected(plugins: Plugins, hook: str, context: ExportContext) -> list[_Pass[Any]]:
    """Collect the passes of all plugins, and put those with the attribute `last` last."""
    found: list[_Pass[Any]] = []
    for implementation in plugins.implementations(hook):
        with calling(implementation.plugin, implementation, PassError):
            given = implementation(options=context.options, context=context)
        for each in given if isinstance(given, (list, tuple)) else () if given is None else (given,):
            if not callable(each):
                raise PassError(f"{implementation} returned {each!r}, which is not callable")
            found.append(_Pass(implementation.plugin, _name(each), each))
    return sorted(found, key=lambda each: bool(getattr(each.run, "last", False)))  # optional, as `name` is


def _name(each: Any) -> str:
    """Return the pass's `name`, or that of its class or function, in kebab-case."""
    given = getattr(each, "name", None) or getattr(each, "__name__", None)
    name = given if isinstance(given, str) else type(each).__name__
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()
    return name.strip("-").removesuffix("-pass")
