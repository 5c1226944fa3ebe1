"""Order, skip, run, time and check the passes of one export.

A pass keeps inputs, outputs and opset. This contract is checked after each pass, the whole graph after the passes of other
projects, and in debug mode.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import onnx
import onnx_ir as ir

from onnxexp._capture.foreign_frontend import check_graph
from onnxexp._errors import OptionError, PassError, summary
from onnxexp._neutral_graph import Graph
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.loading import Plugins
from onnxexp._plugins.plugin import Plugin
from onnxexp._request.export_context import ExportContext
from onnxexp._serialize.proto_layout import skeleton
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
        self._run([each for each in self._post if not self._skipped(each)][:count], model, check_model)
        self._plugin_data.clear()  # it may hold Tensors, and these the builder and the weights

    def _run(self, passes: Sequence[_Pass[Subject]], subject: Subject, check: Callable[[Subject], str]) -> None:
        before = contract(subject)
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
            broken = _misused(result, subject) or _contract_change(before, subject)
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


Contract = tuple[Any, ...]


def contract(subject: Graph | ir.Model) -> Contract:
    """Return what a pass must keep.

    For a captured graph: the names of the inputs and the number of outputs. For a model: the names and dtypes of inputs and
    outputs in order, the fixed sizes of the inputs, and the opset.
    """
    if isinstance(subject, Graph):
        return tuple(value.name for value in subject.inputs), len(subject.outputs)
    graph = subject.graph
    inputs = tuple((value.name, value.dtype, _fixed_sizes(value)) for value in graph.inputs)
    outputs = tuple((value.name, value.dtype) for value in graph.outputs)
    return inputs, outputs, graph.opset_imports.get("")


def _fixed_sizes(value: ir.Value) -> tuple[int | None, ...] | None:
    """Return a shape without the names of its dynamic axes, which a pass may change."""
    return None if value.shape is None else tuple(size if isinstance(size, int) else None for size in value.shape)


def _contract_change(before: Contract, subject: Graph | ir.Model) -> str:
    """Describe how a pass broke the contract, or return "" if it did not."""
    try:
        after = contract(subject)
    except Exception as error:  # noqa: BLE001 – a pass may leave anything where the graph was
        return f"its inputs and outputs cannot be read: {summary(error)}"
    parts = zip(("inputs", "outputs", "opset"), before, after, strict=False)
    return next((f"its {name} were {was}, now they are {now}" for name, was, now in parts if was != now), "")


def check_model(model: ir.Model) -> str:
    """Run onnx's checker without the weights, and return its message or ""."""
    try:
        for function in model.functions.values():
            made = {*function.inputs, *(value for node in function for value in node.outputs)}
            if unmade := [value.name for value in function.outputs if value not in made]:
                return f"the function {function.name} returns {unmade}, which nothing makes"
        proto = skeleton(model)
        inputs = {given.name for given in proto.graph.input}
        for name, value in model.graph.initializers.items():
            held = value.const_value
            if held is not None and (held.dtype != value.dtype or _fixed_sizes(value) != tuple(held.shape)):
                return f"the initializer {name} is declared as {value.type} {value.shape}, and its value is {held!r}"
            if held is None and name not in inputs:
                return f"the initializer {name} has no value"
            if name not in inputs:
                proto.graph.input.append(ir.to_proto(value))
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # noqa: BLE001 – a broken graph may fail anywhere on its way into the checker
        return f"{summary(error)}"
    return ""
