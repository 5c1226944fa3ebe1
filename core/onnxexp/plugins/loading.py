"""Load the plugins of one export.

A plugin is the object of an entry point in the group ``onnxexp.plugins``, or one that a call passes in ``plugins=[...]``: a
`SymbolicTable`, or any object (a module, an instance) with hook implementations and, optionally, its tables in `symbolics`.
Exports share no `Plugins`, so that parallel ones do not meet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import traceback
import types
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import importlib_metadata
import pluggy

from onnxexp.errors import PluginConflict, PluginError, PluginLoadError
from onnxexp.plugins import hookspecs, isolated_import
from onnxexp.plugins.discovery import InstalledPlugin, PluginStatus, check_target, effective, missing, states
from onnxexp.plugins.isolated_import import import_object
from onnxexp.request.config import Config
from onnxexp.request.config import load as load_config
from onnxexp.request.export_context import ExportContext
from onnxexp.suggest import nearest
from onnxexp.symbolics.dispatch import Dispatcher, Source
from onnxexp.symbolics.table import SymbolicTable, location_of, name_of
from onnxexp.user_warnings import warn

__all__ = ["Implementation", "Plugin", "Plugins", "load", "symbolics_for"]

_ROUTINES = (types.FunctionType, types.MethodType, staticmethod, classmethod)
HOOKS = ("capture_context", "capture", "pre_pass", "lower_node", "post_pass", "serialize", "prepare_session", "write_report")


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A loaded plugin.

    Attributes:
        name: The name of its entry point; ``inline ...`` for one that was passed to the call.
        distribution, version: Its distribution; "" for one that was passed to the call.
        object: The object of the entry point.
        tables: Its tables of symbolics.
        hooks: The names of the hooks that it implements.
        user: Whether it was passed to the call.
        own: Whether its distribution is one of this project.
    """

    name: str
    distribution: str
    version: str
    object: Any = dataclasses.field(repr=False, compare=False)  # it may be unhashable
    tables: tuple[SymbolicTable, ...] = ()
    hooks: tuple[str, ...] = ()
    user: bool = False
    own: bool = False

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}" if self.distribution else ""

    def __str__(self) -> str:
        return f"the plugin {self.name!r}" + (f" ({self.origin})" if self.origin else "")


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One plugin's implementation of a hook; calls pass the parameters that it takes."""

    plugin: Plugin
    hook: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        """The function's full name."""
        return name_of(self.function)

    def __call__(self, **given: Any) -> Any:
        return self.function(*[given[name] for name in self.parameters])

    def __str__(self) -> str:
        return f"the hook {self.hook} of {self.plugin} at {location_of(self.function)}"


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
        ordered = tuple(sorted(loaded, key=lambda plugin: (not plugin.user, plugin.name)))
        if any(plugin.user for plugin in ordered):  # no cache keeps a user's object alive
            self.loaded, self._implementations = _register_all(ordered)
        else:
            self.loaded, self._implementations = _register_installed(ordered, tuple(map(_contents, ordered)))
        self.dispatcher = Dispatcher(
            (Source(plugin.name, table, plugin.origin, plugin.user) for plugin in self.loaded for table in plugin.tables), prefer
        )
        self.used: set[str] = set()
        self.off = tuple(off)

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """List the implementations of a hook, in pluggy's calling order.

        They are called one by one, not through pluggy's caller: errors name the plugin, and `used` lists the plugins that took
        part.
        """
        return self._implementations[hook]

    @contextlib.contextmanager
    def capturing(self, context: ExportContext) -> Iterator[None]:
        """Enter the `capture_context` of every plugin; an error names its plugin."""
        with contextlib.ExitStack() as stack:
            for implementation in self.implementations("capture_context"):
                try:
                    manager = implementation(options=context.options, context=context)
                    if manager is not None:
                        stack.enter_context(manager)
                except (KeyboardInterrupt, GeneratorExit):
                    raise
                except BaseException as error:  # a plugin may raise anything
                    raise PluginError(f"{implementation} failed: {type(error).__name__}: {error}") from error
            yield

    def used_plugins(self) -> tuple[Plugin, ...]:
        return tuple([plugin for plugin in self.loaded if plugin.name in self.used])


_Registered: TypeAlias = tuple[tuple[Plugin, ...], Mapping[str, tuple[Implementation, ...]]]


@functools.lru_cache(maxsize=32)  # without it `load` takes 0.8 ms instead of 0.03 ms
def _register_installed(plugins: tuple[Plugin, ...], contents: tuple[Hashable, ...]) -> _Registered:
    """Register installed plugins once; `contents` are others after a reload."""
    del contents
    return _register_all(plugins)


def _contents(plugin: Plugin) -> Hashable:
    """Identify an object, and the functions of it and its classes.

    The cached Plugin keeps the object alive, so that no other object gets its id.
    """
    subject = plugin.object
    holders = (subject, *type(subject).__mro__[:-1], *(subject.__mro__[1:-1] if isinstance(subject, type) else ()))
    attributes = [tuple(getattr(holder, "__dict__", {}).values()) for holder in holders]  # an object with slots has none
    return id(subject), *(each for values in attributes for each in values if isinstance(each, _ROUTINES))


def _register_all(plugins: tuple[Plugin, ...]) -> _Registered:
    """Register plugins with pluggy, and list each hook's implementations."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registered = tuple(_register(manager, plugin) for plugin in reversed(plugins))[::-1]  # pluggy calls the last one first
    by_name = {plugin.name: plugin for plugin in registered}
    found = {hook: reversed(getattr(manager.hook, hook).get_hookimpls()) for hook in HOOKS}  # its callers are attributes
    return registered, {
        hook: tuple(Implementation(by_name[each.plugin_name], hook, each.function, tuple(each.argnames)) for each in impls)
        for hook, impls in found.items()
    }


def load(config: Config) -> Plugins:
    """Load the plugins that the configuration selects.

    A warning names each one that is left out because it does not load or its name is doubled, and operators that two claim:
    those raise PluginConflict where the model has them. With `strict_plugins`, each is an error at once.

    Raises:
        PluginLoadError: one is missing, or a lock refuses it; one that the configuration or the target names does not load.
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

    For tools that read them outside an export. The configuration selects the plugins, as for an export without ``plugins=``.

    Raises PluginLoadError as `onnxexp.export` does, and PluginConflict where plugins claim the operator and none wins.
    """
    candidates = load(load_config()).dispatcher.candidates(operator, opset)
    return [candidate.symbolic.function for candidate in candidates]


def _loaded_or_left_out(state: PluginStatus, required: Container[str]) -> Plugin | PluginStatus:
    """Load a plugin, or warn that it is left out; one that is off has had its reason."""
    if state.state == "off":
        return state
    reason = f"the plugin {state.found.name!r} ({state.found.origin}) is refused: {state.reason}"
    if state.state == "on":
        try:
            plugin = _load(state.found)
            _register_installed((plugin,), (_contents(plugin),))  # its hooks are checked
            return plugin
        except PluginLoadError as error:
            if state.found.name in required:
                raise
            state, reason = dataclasses.replace(state, state="broken", reason="it does not load"), str(error)
    warn(f"{reason}. The export goes on without it; strict_plugins = true in the configuration makes this an error")
    return state


def _load(found: InstalledPlugin) -> Plugin:
    try:
        loaded = import_object(found)
    except (Exception, SystemExit) as error:  # a plugin's import may raise anything
        raise PluginLoadError(
            f"{_entry(found)} does not load: {type(error).__name__}: {error}{_raised(error)}; reinstall or remove the "
            f"distribution, or switch the plugin off with `disable` (without=[{found.name!r}] in the call)"
        ) from error
    return Plugin(found.name, found.distribution, found.version, loaded, _tables(loaded, found), own=found.own)


def _entry(found: InstalledPlugin) -> str:
    return f"the plugin {found.name!r} ({found.origin}, entry point {found.value})"


def _replaced(plugin: Plugin, inline: Iterable[Plugin]) -> bool:
    """Whether the call passes this plugin, or one of its class with other settings."""
    if isinstance(plugin.object, SymbolicTable) or inspect.ismodule(plugin.object):
        return any(given.object is plugin.object for given in inline)
    return any(type(given.object) is type(plugin.object) for given in inline)


def _inline(objects: Sequence[Any]) -> list[Plugin]:
    plugins = []
    for number, given in enumerate(objects):
        label = given.namespace if isinstance(given, SymbolicTable) else _name(given)
        name = f"inline {label}" + (f" {number}" if number else "")
        plugins.append(Plugin(name, "", "", given, _tables(given), user=True))
    return plugins


def _name(given: Any) -> str:
    return str(given.__name__ if inspect.ismodule(given) or inspect.isclass(given) else type(given).__name__)


def _tables(given: Any, found: InstalledPlugin | None = None) -> tuple[SymbolicTable, ...]:
    """The tables of a plugin. Raises PluginLoadError where `symbolics` is wrong."""
    if isinstance(given, SymbolicTable):
        return (given,)
    symbolics = getattr(given, "symbolics", ())
    tables = (symbolics,) if isinstance(symbolics, SymbolicTable) else tuple(symbolics)
    for table in tables:
        if not isinstance(table, SymbolicTable):
            whose = _entry(found) if found is not None else f"plugins: {given!r}"
            raise PluginLoadError(f"{whose}: its `symbolics` contain {table!r}, which is no SymbolicTable")
    return tables


def _register(manager: pluggy.PluginManager, plugin: Plugin) -> Plugin:
    """Register a plugin and list its hooks.

    Raises PluginLoadError for a plugin without hooks and tables, for unknown hooks, and for unknown parameters.
    """
    if isinstance(plugin.object, SymbolicTable):
        return plugin
    try:
        manager.register(plugin.object, plugin.name)
    except pluggy.PluginValidationError as error:
        reason = str(error).partition("\n")[2].replace("\n", "; ") or str(error)
        functions = inspect.getmembers(plugin.object, inspect.isroutine)
        places = ", ".join(location_of(function) for name, function in functions if f"{name}(" in reason)
        raise PluginLoadError(f"{plugin}: {reason} ({places}); onnxexp.plugins.hookspecs lists the parameters") from None
    except ValueError as error:
        raise PluginLoadError(f"{plugin}: {error}") from None
    callers = manager.get_hookcallers(plugin.object) or []
    for caller in callers:
        implementation = next(impl for impl in caller.get_hookimpls() if impl.plugin_name == plugin.name)
        place = location_of(implementation.function)
        if caller.name not in HOOKS:
            raise PluginLoadError(
                f"{plugin}: there is no hook {caller.name!r}{nearest(caller.name, HOOKS)} ({place}); there are {', '.join(HOOKS)}"
            )
        if implementation.hookwrapper or implementation.wrapper:
            raise PluginLoadError(f"{plugin}: the hook {caller.name} ({place}) is a wrapper; onnxexp calls each plugin by itself")
    if not callers and not plugin.tables:
        raise PluginLoadError(
            f"{plugin}: {plugin.object!r} is neither a SymbolicTable nor an object with hooks: mark its functions with "
            "onnxexp.hookimpl, or put its tables into an attribute `symbolics`"
        )
    named = {caller.name for caller in callers}
    return dataclasses.replace(plugin, hooks=tuple(hook for hook in HOOKS if hook in named))


def _raised(error: BaseException) -> str:
    """Place of a failed import as " (file:line)"; "" outside of the plugin's code."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    own = (importlib.__file__, isolated_import.__file__, __file__, importlib_metadata.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and frames[-1].filename not in own else ""
