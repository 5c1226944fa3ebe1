"""Load the plugins of one export.

A plugin is the object of an entry point in the group ``onnxexp.plugins``, or one that a call passes in ``plugins=[...]``: a
`SymbolicTable`, or any object (a module, an instance) with hook implementations and, optionally, its tables in `symbolics`.
Exports share no `Plugins`, so that parallel exports do not affect each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from onnxexp._errors import PluginConflict, PluginError, PluginLoadError
from onnxexp._plugins.discovery import PluginStatus, check_target, effective, missing, states
from onnxexp._plugins.foreign_code import naming, restored_state
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._plugins.isolated_import import import_object
from onnxexp._plugins.plugin import HOOKS, Implementation, Plugin
from onnxexp._plugins.read_plugin import read
from onnxexp._request.config import Config
from onnxexp._request.config import load as load_config
from onnxexp._request.export_context import ExportContext
from onnxexp._symbolics.dispatch import Dispatcher, Source
from onnxexp._symbolics.table import SymbolicTable
from onnxexp._user_warnings import warn


class Plugins:
    """The plugins of one export.

    Attributes:
        loaded: The plugins; those of the call first, then by name.
        dispatcher: Their tables as one.
        used: The names of those that have taken part: lowered a node, ran a pass, wrote the file.
        off: Those that are installed and were not selected, or left out.
    """

    def __init__(
        self, loaded: Iterable[Plugin], prefer: Mapping[str, str] | None = None, off: Sequence[PluginStatus] = ()
    ) -> None:
        self.loaded = tuple(sorted(loaded, key=lambda plugin: (not plugin.user, plugin.name)))
        every = [each for plugin in self.loaded for each in plugin.implementations]
        self._implementations = {hook: _ordered([each for each in every if each.hook == hook]) for hook in HOOKS}
        self.dispatcher = Dispatcher(
            (Source(plugin.name, table, plugin.origin, plugin.user) for plugin in self.loaded for table in plugin.tables), prefer
        )
        self.used: set[str] = set()
        self.off = tuple(off)

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """List the implementations of a hook, in pluggy's calling order.

        The core calls them one by one, not through pluggy's caller: errors name the plugin, and `used` lists the plugins that
        took part.
        """
        return self._implementations[hook]

    @contextlib.contextmanager
    def capturing(self, context: ExportContext) -> Iterator[None]:
        """Enter the `capture_context` of every plugin, with the plugin's name in errors."""
        with contextlib.ExitStack() as stack:
            for implementation in self.implementations("capture_context"):
                stack.enter_context(_surrounding(implementation, context))
            yield

    def used_plugins(self) -> tuple[Plugin, ...]:
        return tuple([plugin for plugin in self.loaded if plugin.name in self.used])


def _ordered(found: Sequence[Implementation]) -> tuple[Implementation, ...]:
    """Sort a hook's implementations as pluggy would call them."""
    middle = [each for each in found if not each.first and not each.last]
    return (*(each for each in found if each.first), *middle, *reversed([each for each in found if each.last]))


@contextlib.contextmanager
def _surrounding(implementation: Implementation, context: ExportContext) -> Iterator[None]:
    """Enter the context manager of one `capture_context`.

    The context manager cannot suppress an error of the capture.
    """
    inner, failed = contextlib.ExitStack(), None
    with restored_state(implementation.plugin):
        with naming(implementation, PluginError):
            manager = implementation(options=context.options, context=context)
            if manager is not None:
                inner.enter_context(manager)
        try:
            yield
        except BaseException as error:
            failed = error
            raise
        finally:
            with naming(implementation, PluginError):
                inner.__exit__(type(failed) if failed else None, failed, failed.__traceback__ if failed else None)


def load(config: Config) -> Plugins:
    """Load the plugins that the configuration selects.

    A warning names each plugin that is left out because it does not load or its name is doubled. Another warning names operators
    that two plugins claim: those raise PluginConflict where the model has them. With `strict_plugins`, each is an error at once.

    Raises:
        PluginLoadError: A plugin is missing, or a lock refuses it; or one that the configuration or the target names is broken.
        PluginConflict: Two plugins claim an operator, and `strict_plugins` is set.
        OptionError: `prefer` names a plugin that cannot lower the operator.
    """
    all_states = states(config)
    required = {name for name in (*(config.plugins or ()), *config.prefer.values(), config.target) if isinstance(name, str)}
    if config.strict_plugins:
        required.update(state.found.name for state in all_states)
    check_target(config, all_states)
    kept = all_states if config.strict_plugins else effective(all_states)
    refused = [state for state in kept if state.state == "refused"]
    if refused and (config.allow or not required.isdisjoint(state.found.name for state in refused)):
        lines = "".join(f"\n  {state.found.name}: {state.reason}" for state in refused)
        raise PluginLoadError(f"installed plugins are refused, and nothing is exported without them:{lines}\n"
                              "lift the lock, or switch them off with `disable` (without=[...] in the call)")  # fmt: skip
    inline = _inline([item for item in config.plugins or () if not isinstance(item, str) and item is not ...])
    outcomes = [_loaded_or_left_out(state, required) for state in all_states]
    installed = [each for each in outcomes if isinstance(each, Plugin)]
    loaded = [*inline, *(plugin for plugin in installed if not _replaced(plugin, inline))]
    off = [each for each in outcomes if isinstance(each, PluginStatus) and not each.found.is_target]
    known = [*(plugin.name for plugin in loaded), *(state.found.name for state in all_states)]
    for name in config.prefer.values():
        if name not in known:
            raise missing(name, known, config.origins["prefer"])
    plugins = Plugins(loaded, config.prefer, off)
    if config.strict_plugins and plugins.dispatcher.conflicts:
        raise PluginConflict("\n".join(plugins.dispatcher.conflicts))
    for conflict in plugins.dispatcher.conflicts:
        warn(f"{conflict}. Until then, no model with such an operator can be exported")
    return plugins


def symbolics_for(operator: str, opset: int) -> list[Callable[..., Any]]:
    """List an operator's symbolics (``aten::add.Tensor``) at an opset in call order.

    Tools read them outside an export. The configuration selects the plugins, as for an export without ``plugins=``. Raises
    PluginLoadError as `onnxexp.export` does, and PluginConflict where plugins claim the operator and none wins.
    """
    candidates = load(load_config()).dispatcher.candidates(operator, opset)
    return [candidate.symbolic.function for candidate in candidates]


def _loaded_or_left_out(state: PluginStatus, required: Container[str]) -> Plugin | PluginStatus:
    """Load a plugin that is on, or return its status.

    A warning names a plugin that is refused or does not load. Raises PluginLoadError where a required plugin does not load.
    """
    if state.state == "off":
        return state
    reason = f"the plugin {state.found.name!r} ({state.found.origin}) is refused: {state.reason}"
    if state.state == "on":
        try:
            return load_plugin(state.found)
        except PluginLoadError as error:
            if state.found.name in required:
                raise
            state, reason = dataclasses.replace(state, state="broken", reason="it does not load"), str(error)
    warn(f"{reason}. The export goes on without it; strict_plugins = true in the configuration makes this an error")
    return state


def load_plugin(found: InstalledPlugin) -> Plugin:
    """Import one installed plugin, and read its object.

    Raises PluginLoadError where the import fails or the object is no plugin.
    """
    plugin = Plugin(found.name, found.distribution, found.version, None, own=found.own)
    what = f"the plugin {found.name!r} ({found.origin}, entry point {found.value})"
    fix = f"reinstall or remove the distribution, or switch the plugin off with `disable` (without=[{found.name!r}] in the call)"
    with restored_state(plugin):
        loaded = import_object(found, what, fix)
    return read(dataclasses.replace(plugin, object=loaded))


def _replaced(plugin: Plugin, inline: Iterable[Plugin]) -> bool:
    """Return whether the call passes this plugin or another object of its class."""
    if isinstance(plugin.object, SymbolicTable) or inspect.ismodule(plugin.object):
        return any(given.object is plugin.object for given in inline)
    return any(type(given.object) is type(plugin.object) for given in inline)


def _inline(objects: Sequence[Any]) -> list[Plugin]:
    plugins = []
    for number, given in enumerate(objects):
        label = given.namespace if isinstance(given, SymbolicTable) else _name(given)
        name = f"inline {label}" + (f" {number}" if number else "")
        plugins.append(read(Plugin(name, "", "", given, user=True)))
    return plugins


def _name(given: Any) -> str:
    return str(given.__name__ if inspect.ismodule(given) or inspect.isclass(given) else type(given).__name__)
