"""Loading the selected plugins, and what they are to one export. There is no manager for the whole process: exports in parallel
threads do not meet.

A plugin is what an entry point of the group ``onnxexp.plugins`` names, or what a call passes in ``plugins=[...]``: a
`SymbolicTable`, or any object (a module, an instance) with hook implementations and, optionally, its tables in `symbolics`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import importlib_metadata
import pluggy

from onnxexp.errors import PluginError, PluginLoadError
from onnxexp.plugins import hookspecs, isolated_import
from onnxexp.plugins.discovery import Found, State, discover, missing, states
from onnxexp.plugins.isolated_import import import_object
from onnxexp.request.config import Config
from onnxexp.suggest import nearest
from onnxexp.symbolics.dispatch import Dispatcher, Source
from onnxexp.symbolics.table import SymbolicTable

__all__ = ["Implementation", "Plugin", "Plugins", "load", "load_all"]

HOOKS = ("capture_context", "pre_pass", "lower_node", "post_pass", "serialize")


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A loaded plugin.

    Attributes:
        name: That of its entry point; ``inline ...`` for one that was passed to the call.
        distribution, version: Whose it is; "" for one that was passed to the call.
        object: What the entry point names.
        tables: Its tables of symbolics.
        hooks: The names of the hooks that it implements.
        user: Was it passed to the call?
    """

    name: str
    distribution: str
    version: str
    object: Any = dataclasses.field(repr=False)
    tables: tuple[SymbolicTable, ...] = ()
    hooks: tuple[str, ...] = ()
    user: bool = False

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}" if self.distribution else ""

    def __str__(self) -> str:
        return f"the plugin {self.name!r}" + (f" ({self.origin})" if self.origin else "")


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One plugin's implementation of a hook; called with the hook's parameters by name, it passes on those that it takes."""

    plugin: Plugin
    hook: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]

    def __call__(self, **given: Any) -> Any:
        return self.function(*[given[name] for name in self.parameters])

    def __str__(self) -> str:
        return f"the hook {self.hook} of {self.plugin} at {_place(self.function)}"


class Plugins:
    """The plugins of one export.

    Attributes:
        loaded: The plugins, by name.
        dispatcher: Their tables as one.
        used: Those that have taken part: lowered a node, ran a pass, wrote the file.
        off: Those that are installed and were not selected.
    """

    def __init__(self, loaded: Iterable[Plugin], prefer: Mapping[str, str] | None = None, off: Sequence[State] = ()) -> None:
        self.loaded, self._implementations = _asked(sorted(loaded, key=lambda plugin: (not plugin.user, plugin.name)))
        self.dispatcher = Dispatcher(
            (Source(plugin.name, table, plugin.origin, plugin.user) for plugin in self.loaded for table in plugin.tables), prefer
        )
        self.used: set[str] = set()
        self.off = tuple(off)

    def anew(self) -> Plugins:
        """The same plugins for another export, in which none has taken part yet."""
        other = object.__new__(Plugins)
        other.loaded, other._implementations, other.dispatcher = self.loaded, self._implementations, self.dispatcher
        other.used, other.off = set(), self.off
        return other

    @property
    def claims(self) -> frozenset[str]:
        """The operators that their tables have symbolics for, as they were registered."""
        return self.dispatcher.operators

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """Who implements a hook, in the order in which they are asked."""
        return self._implementations[hook]

    def capturing(self, options: Any) -> AbstractContextManager[Any]:
        """Inside, every plugin's `capture_context` is entered."""
        contexts = [_CaptureContext(implementation, options) for implementation in self.implementations("capture_context")]
        return contexts[0] if len(contexts) == 1 else _all_of(contexts)

    def used_plugins(self) -> tuple[Plugin, ...]:
        return tuple([plugin for plugin in self.loaded if plugin.name in self.used])


class _CaptureContext:
    """One plugin's `capture_context`: what fails before the capture is told with whose it is."""

    def __init__(self, implementation: Implementation, options: Any) -> None:
        self._implementation, self._options = implementation, options

    def __enter__(self) -> None:
        try:
            context = self._implementation(options=self._options)
            context = contextlib.nullcontext() if context is None else context
            self._leave = context.__exit__
            context.__enter__()
        except Exception as error:  # anyone's code: told with whose it is
            raise PluginError(f"{self._implementation} failed: {type(error).__name__}: {error}") from error

    def __exit__(self, *raised: Any) -> Any:
        return self._leave(*raised)


@contextlib.contextmanager
def _all_of(contexts: Iterable[AbstractContextManager[Any]]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


_ROUTINES = frozenset({types.FunctionType, types.MethodType, staticmethod, classmethod})

_last: list[tuple[tuple[Any, ...], list[Found], list[tuple[Any, ...]], Plugins]] = []
"""What was installed and selected at the last export, which plugins that gave, what was in them, and what they came to."""


def _asked(ordered: Sequence[Plugin]) -> tuple[tuple[Plugin, ...], Mapping[str, tuple[Implementation, ...]]]:
    """The plugins, checked, with their hooks, and who implements each hook."""
    manager = _Manager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registered = tuple(_register(manager, plugin) for plugin in reversed(ordered))[::-1]  # pluggy asks the last one first
    by_name = {plugin.name: plugin for plugin in registered}
    found = {hook: reversed(getattr(manager.hook, hook).get_hookimpls()) for hook in HOOKS}
    return registered, {
        hook: tuple(Implementation(by_name[impl.plugin_name], hook, impl.function, tuple(impl.argnames)) for impl in impls)
        for hook, impls in found.items()
    }


def _contents(found: Found) -> tuple[Any, ...]:
    """What is read out of a plugin: where that is the same, it comes to the same."""
    plugin = _imported(found)
    return id(plugin), [(table, table.revision, table.override) for table in _tables(plugin, found)], _routines(plugin)


def _routines(plugin: Any) -> list[Any]:
    """The functions among the attributes of an object, of its classes and, where it is a class itself, of its bases."""
    holders = (plugin, *type(plugin).__mro__[:-1], *(plugin.__mro__[1:-1] if isinstance(plugin, type) else ()))
    return [each for holder in holders for each in tuple(getattr(holder, "__dict__", {}).values()) if type(each) in _ROUTINES]


class _Manager(pluggy.PluginManager):
    """Looks for hooks among the names that a plugin has of its own, not among those that Python gives every object."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return None if name.startswith("__") else super().parse_hookspec_opts(module_or_class, name)


def load(config: Config) -> Plugins:
    """The plugins that the configuration selects, loaded.

    What pluggy reads out of signatures takes longer than a small model's export: it is read again only when there are other
    plugins than last time, or one has got other functions (a reloaded module has) or symbolics.

    Raises:
        PluginLoadError: one is missing, refused (a lock, a doubled name) or does not load.
        PluginConflict: two claim one operator.
        OptionError: `prefer` names a plugin that cannot lower the operator.
    """
    found = discover()
    selection = found, config.plugins, config.disable, config.prefer, config.origins["plugins"], config.origins["disable"]
    for known, selected, contents, plugins in () if config.allow else _last[:]:  # a lock looks into the files, each time
        if known == selection and contents == [_contents(each) for each in selected]:
            return plugins.anew()
    all_states = states(config, found)
    off = [state for state in all_states if state.state == "off"]
    selected = [state.found for state in all_states if state.state != "off"]
    refused = [f"{state.found.name}: {state.reason}" for state in all_states if state.state == "refused"]
    if refused:
        raise PluginLoadError("installed plugins are refused, and nothing is exported without them:\n  " + "\n  ".join(refused)
                              + "\nlift the lock, or switch them off with `disable` (without=[...] in the call)")  # fmt: skip
    inline = _inline([item for item in config.plugins or () if not isinstance(item, str) and item is not ...])
    loaded = [_load(each) for each in selected]
    if inline:  # the user's objects are not held any longer than their export
        return _preferring(config, [*inline, *(plugin for plugin in loaded if not _replaced(plugin, inline))], off)
    contents = [_contents(each) for each in selected]
    plugins = _preferring(config, loaded, off)
    _last[:] = [(selection, selected, contents, plugins)]
    return plugins.anew()


def _preferring(config: Config, loaded: Sequence[Plugin], off: Sequence[State]) -> Plugins:
    known = [*(plugin.name for plugin in loaded), *(found.name for found in discover())] if config.prefer else []
    for name in config.prefer.values():
        if name not in known:
            raise missing(name, known, config.origins["prefer"])
    return Plugins(loaded, config.prefer, off)


def load_all(config: Config) -> list[tuple[State, Plugin | PluginError | None]]:
    """Every installed plugin: loaded where it is on, the error where that fails, None where it is off or refused."""
    return [(state, _loaded_or_error(state.found) if state.state == "on" else None) for state in states(config)]


def _loaded_or_error(found: Found) -> Plugin | PluginError:
    try:
        return Plugins([_load(found)]).loaded[0]
    except PluginError as error:
        return error


def _load(found: Found) -> Plugin:
    loaded = _imported(found)
    return Plugin(found.name, found.distribution, found.version, loaded, _tables(loaded, found))


def _imported(found: Found) -> Any:
    try:
        return import_object(found)
    except (Exception, SystemExit) as error:  # whatever a plugin's import raises is the plugin's failure, told with its origin
        raise PluginLoadError(
            f"{_entry(found)} does not load: {type(error).__name__}: {error}{_raised(error)}; reinstall or remove the "
            f"distribution, or switch the plugin off with `disable` (without=[{found.name!r}] in the call)"
        ) from error


def _entry(found: Found) -> str:
    return f"the plugin {found.name!r} ({found.origin}, entry point {found.value})"


def _replaced(plugin: Plugin, inline: Iterable[Plugin]) -> bool:
    """Does the call give this plugin itself, or one of its class with other settings?"""
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


def _tables(given: Any, found: Found | None = None) -> tuple[SymbolicTable, ...]:
    """The tables of an installed plugin, or of the call's own. Raises PluginLoadError where they are something else."""
    if isinstance(given, SymbolicTable):
        return (given,)
    symbolics = getattr(given, "symbolics", ())
    tables = (symbolics,) if isinstance(symbolics, SymbolicTable) else tuple(symbolics)
    for table in tables:
        if not isinstance(table, SymbolicTable):
            whose = _entry(found) if found is not None else f"plugins: {given!r}"
            raise PluginLoadError(f"{whose}: its `symbolics` hold {table!r}, which is no SymbolicTable")
    return tables


def _register(manager: pluggy.PluginManager, plugin: Plugin) -> Plugin:
    """With its hooks. Raises PluginLoadError where there is neither a hook nor a table, for hooks that there are not, and for
    parameters that a hook does not have."""
    if isinstance(plugin.object, SymbolicTable):
        return plugin
    try:
        manager.register(plugin.object, plugin.name)
    except pluggy.PluginValidationError as error:
        reason = str(error).partition("\n")[2].replace("\n", "; ") or str(error)
        functions = inspect.getmembers(plugin.object, inspect.isroutine)
        places = ", ".join(_place(function) for name, function in functions if f"{name}(" in reason)
        raise PluginLoadError(f"{plugin}: {reason} ({places}); onnxexp.plugins.hookspecs says what each hook takes") from None
    except ValueError as error:
        raise PluginLoadError(f"{plugin}: {error}") from None
    callers = manager.get_hookcallers(plugin.object) or []
    for caller in callers:
        implementation = next(impl for impl in caller.get_hookimpls() if impl.plugin_name == plugin.name)
        place = _place(implementation.function)
        if caller.name not in HOOKS:
            raise PluginLoadError(
                f"{plugin}: there is no hook {caller.name!r}{nearest(caller.name, HOOKS)} ({place}); there are {', '.join(HOOKS)}"
            )
        if implementation.hookwrapper or implementation.wrapper:
            raise PluginLoadError(f"{plugin}: the hook {caller.name} ({place}) is a wrapper; onnxexp asks each plugin by itself")
    if not callers and not plugin.tables:
        raise PluginLoadError(
            f"{plugin}: {plugin.object!r} is neither a SymbolicTable nor an object with hooks: mark its functions with "
            "onnxexp.hookimpl, or put its tables into an attribute `symbolics`"
        )
    named = {caller.name for caller in callers}
    return dataclasses.replace(plugin, hooks=tuple(hook for hook in HOOKS if hook in named))


def _raised(error: BaseException) -> str:
    """Where an import failed, as " (file:line)"; "" where no code of the plugin was running."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    own = (importlib.__file__, isolated_import.__file__, __file__, importlib_metadata.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and frames[-1].filename not in own else ""


def _place(function: Callable[..., Any]) -> str:
    plain = inspect.unwrap(function)
    code = getattr(plain, "__func__", plain).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
