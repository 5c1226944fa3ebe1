"""Finding and loading plugins: entry points of the group ``onnxexp.plugins``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from importlib_metadata import EntryPoint, entry_points

from onnxexp.errors import PluginLoadError
from onnxexp.names import nearest
from onnxexp.symbolics import Dispatcher, SymbolicTable

__all__ = ["GROUP", "Plugin", "dispatcher", "select"]

GROUP = "onnxexp.plugins"


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A loaded plugin: its entry point's name, its distribution and version, and its table of symbolics."""

    name: str
    table: SymbolicTable
    distribution: str = ""
    version: str = ""


def select(wanted: Sequence[str | SymbolicTable] | None) -> list[Plugin]:
    """The plugins of an export: every installed one (None), or those named and the tables given.

    Raises PluginLoadError where one is missing, doubled or does not load.
    """
    installed: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in installed and _origin(installed[point.name]) != _origin(point):
            raise PluginLoadError(
                f"two installed distributions name a plugin {point.name!r}: {_origin(installed[point.name])} and "
                f"{_origin(point)}; uninstall one of them"
            )
        installed[point.name] = point
    names = list(installed) if wanted is None else [item for item in wanted if isinstance(item, str)]
    tables = [item for item in wanted or () if not isinstance(item, str)]
    plugins = [_load(installed, name) for name in dict.fromkeys(names)]
    for index, table in enumerate(tables):
        if not isinstance(table, SymbolicTable):
            raise PluginLoadError(f"plugins: {table!r} is neither a plugin's name nor a SymbolicTable")
        plugins.append(Plugin(f"inline {table.namespace} {index}", table))
    return plugins


def dispatcher(plugins: Sequence[Plugin]) -> Dispatcher:
    """The plugins' tables as one. Raises PluginConflict."""
    return Dispatcher((plugin.name, plugin.table) for plugin in plugins)


def _load(installed: dict[str, EntryPoint], name: str) -> Plugin:
    point = installed.get(name)
    if point is None:
        known = ", ".join(sorted(installed)) or "none"
        raise PluginLoadError(
            f"there is no plugin {name!r}{nearest(name, installed)}; installed: {known}. Plugins are distributions of their own; "
            f"onnxexp's are called onnxexp-plugin-..., as in `pip install onnxexp-plugin-aten`"
        )
    before = set(sys.modules)
    try:
        loaded: Any = point.load()
    except Exception as error:  # whatever a plugin's import raises is the plugin's failure, told with its origin
        _forget(point.module.partition(".")[0], before)
        raise PluginLoadError(
            f"the plugin {name!r} ({_origin(point)}, entry point {point.value}) does not load: {type(error).__name__}: {error}; "
            f"reinstall or remove the distribution, or leave the plugin out with plugins=[...]"
        ) from error
    if not isinstance(loaded, SymbolicTable):
        raise PluginLoadError(
            f"the plugin {name!r} ({_origin(point)}): {point.value} is a {type(loaded).__name__}, not a SymbolicTable"
        )
    distribution = point.dist
    return Plugin(name, loaded, distribution.name if distribution else "", distribution.version if distribution else "")


def _forget(package: str, before: set[str]) -> None:
    """Unload the modules that a failed import left, so that the next try meets the same failure and not a half-filled table."""
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == package:
            del sys.modules[name]


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
