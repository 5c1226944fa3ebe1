"""Read the tables of symbolics and the hooks of a plugin.

A plugin is the object of an entry point, or one of `plugins=[...]` in a call. It may be of any type, and its attributes may
raise.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Hashable

import pluggy

from onnxexp._errors import PluginLoadError
from onnxexp._plugins import hookspecs
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.plugin import HOOKS, Implementation, Plugin
from onnxexp._suggest import nearest
from onnxexp._symbolics.table import SymbolicTable, location_of

_ROUTINES = (types.FunctionType, types.MethodType, staticmethod, classmethod)


def read(plugin: Plugin) -> Plugin:
    """Return a plugin with its tables and hooks.

    Raises PluginLoadError for a plugin without hooks and tables, for unknown hooks or parameters, for wrong `symbolics`, and for
    any error of its object.
    """
    with calling(plugin, f"reading {plugin}", PluginLoadError, (PluginLoadError,)):
        tables = _tables(plugin)
        if isinstance(plugin.object, SymbolicTable):
            return dataclasses.replace(plugin, tables=tables)
        found = _hooks(plugin) if plugin.user else _installed_hooks(plugin, _contents(plugin.object))
        if not found and not tables:
            raise PluginLoadError(
                f"{plugin}: {plugin.object!r} is neither a SymbolicTable nor an object with hooks: mark its functions with "
                "onnxexp.hookimpl, or put its tables into an attribute `symbolics`"
            )
        return dataclasses.replace(plugin, tables=tables, implementations=found)


def _tables(plugin: Plugin) -> tuple[SymbolicTable, ...]:
    """Return the tables of symbolics, or raise PluginLoadError for anything else."""
    given = plugin.object
    if isinstance(given, SymbolicTable):
        return (given,)
    symbolics = getattr(given, "symbolics", ())  # optional
    if isinstance(symbolics, SymbolicTable):
        return (symbolics,)
    if not isinstance(symbolics, (list, tuple)):  # an iterator may be endless, and would be empty at the second export
        raise PluginLoadError(
            f"{plugin}: its `symbolics` are {symbolics!r}; to fix this, make it a SymbolicTable, or a list of them"
        )
    for table in symbolics:
        if not isinstance(table, SymbolicTable):
            raise PluginLoadError(
                f"{plugin}: its `symbolics` contain {table!r}, which is no SymbolicTable; to fix this, leave it out"
            )
    return tuple(symbolics)


@functools.lru_cache(maxsize=1024)  # without it `load` takes 0.8 ms instead of 0.03 ms
def _installed_hooks(plugin: Plugin, contents: tuple[Hashable, ...]) -> tuple[Implementation, ...]:
    """Read the hooks of an installed plugin once, and again after a reload.

    A reload changes `contents`.
    """
    del contents
    return _hooks(plugin)


def _contents(subject: object) -> tuple[Hashable, ...]:
    """Return the id of an object, and the functions of the object and its classes.

    The cached Plugin keeps the object alive, so that no other object gets its id.
    """
    bases = subject.__mro__[1:-1] if isinstance(subject, type) else ()
    contents: list[Hashable] = [id(subject)]
    for owner in (subject, *type(subject).__mro__[:-1], *bases):
        attributes = tuple(getattr(owner, "__dict__", {}).values())  # an object with slots has none
        contents += [attribute for attribute in attributes if isinstance(attribute, _ROUTINES)]
    return tuple(contents)


def _hooks(plugin: Plugin) -> tuple[Implementation, ...]:
    """Return the hooks of a plugin.

    Each plugin is registered in a manager of its own, so that plugins cannot disturb each other.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin.object, plugin.name)
    except pluggy.PluginValidationError as error:
        reason = str(error).partition("\n")[2].replace("\n", "; ") or str(error)
        functions = inspect.getmembers(plugin.object, inspect.isroutine)
        places = ", ".join(location_of(function) for name, function in functions if f"{name}(" in reason)
        raise PluginLoadError(f'{plugin}: {reason} ({places}); the reference page "Hooks" lists the parameters') from None
    implementations = []
    for caller in manager.get_hookcallers(plugin.object) or []:
        (hook,) = [hook for hook in caller.get_hookimpls() if hook.plugin_name == plugin.name]
        implementations.append(_implementation(plugin, caller.name, hook))
    return tuple(implementations)


def _implementation(plugin: Plugin, name: str, hook: pluggy.HookImpl) -> Implementation:
    """Check a hook that pluggy has found, and return it as an Implementation."""
    place = location_of(hook.function)
    if name not in HOOKS:
        raise PluginLoadError(
            f"{plugin}: there is no hook {name!r}{nearest(name, HOOKS)} ({place}); there are {', '.join(HOOKS)}"
        )
    if hook.hookwrapper or hook.wrapper:
        raise PluginLoadError(f"{plugin}: the hook {name} ({place}) is a wrapper; onnxexp calls each plugin by itself")
    namespaces: frozenset[str] = getattr(hook.function, hookspecs.NAMESPACES, frozenset())  # pluggy's own marker sets none
    if namespaces and name != "lower_node":
        raise PluginLoadError(
            f"{plugin}: the hook {name} ({place}) has namespaces; to fix this, leave them out, since only lower_node "
            "may have them"
        )
    return Implementation(plugin, name, hook.function, tuple(hook.argnames), hook.tryfirst, hook.trylast, namespaces)
