"""Find installed plugins by their metadata, without importing them or torch.

A plugin is an entry point of the group ``onnxexp.plugins``. Metadata in the working directory does not count: an unpacked or
cloned folder must not take part in exports because it is the current one.
"""

from __future__ import annotations

import configparser
import dataclasses
import functools
import itertools
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from importlib_metadata import EntryPoint, distributions
from packaging.utils import canonicalize_name

from onnxexp._errors import PluginLoadError
from onnxexp._plugins import distribution_files
from onnxexp._plugins.distribution_files import editable_source, is_within
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._plugins.own_distributions import OWNERS, is_own
from onnxexp._request.config import TARGETS, Config, working_directory
from onnxexp._suggest import nearest
from onnxexp._user_warnings import warn

GROUP = "onnxexp.plugins"
_QUANTIZED = dict.fromkeys(("quantized", "quantized_decomposed", "torchao"), "onnxexp-plugin-quantized")
_TARGETS = {"onnxruntime-contrib": "onnxexp-plugin-ort"}
_LIBRARIES = {name: f"onnxexp-plugin-{name}" for name in ("aten", "torchvision", "transformers")}
_PLUGINS = {**_LIBRARIES, **_QUANTIZED, **_TARGETS}
"""This project's distributions, by the namespace of torch operators and classes, or by the target."""


@dataclasses.dataclass(frozen=True)
class PluginStatus:
    """A plugin before loading, which is "on", "off" or "refused", and the reason.

    The configuration turns a plugin off; a lock or a doubled name refuses it. A plugin that an export left out is "broken".
    """

    found: InstalledPlugin
    state: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class DamagedDistribution:
    """A distribution with unreadable metadata, by its folder and the reason."""

    folder: str
    reason: str


_Metadata = tuple[tuple[str, int], ...]
_METADATA_ENDINGS = ("dist-info", "egg-info")


def discover(group: str = GROUP) -> tuple[InstalledPlugin, ...]:
    """List the installed plugins by name, with both distributions of a doubled name."""
    return _discovered(_search_path(), group)[0]


def damaged() -> tuple[DamagedDistribution, ...]:
    """List the distributions that could not be read and so were not searched."""
    return _discovered(_search_path(), GROUP)[1]


@functools.lru_cache(maxsize=8)
def _discovered(
    folders: tuple[tuple[str, _Metadata], ...], group: str
) -> tuple[tuple[InstalledPlugin, ...], tuple[DamagedDistribution, ...]]:
    """Find the plugins and the damaged distributions of some folders.

    The result is cached until the metadata in a folder changes, as by an installation.
    """
    found: list[InstalledPlugin] = []
    broken: list[DamagedDistribution] = []
    same: dict[str, dict[str, InstalledPlugin]] = {}
    for distribution in distributions(path=[folder for folder, _ in folders]):
        try:
            plugins = _plugins(distribution, group)
        except Exception as error:  # noqa: BLE001 - the metadata of somebody else, for which parsers have no common error
            broken.append(DamagedDistribution(_folder(distribution), f"{type(error).__name__}: {error}"))
            continue
        for plugin in plugins[:1]:
            same.setdefault(canonicalize_name(plugin.distribution), {})[os.path.realpath(_folder(distribution))] = plugin
        found += plugins
    # an editable install has its metadata at two places: the first one counts
    once = {(plugin.name, canonicalize_name(plugin.distribution), plugin.own): plugin for plugin in reversed(found)}
    marked = [_with_twins(plugin, same[canonicalize_name(plugin.distribution)]) for plugin in once.values()]
    ordered = sorted(marked, key=lambda plugin: (plugin.name, plugin.distribution, plugin.location))
    return tuple(ordered), tuple(broken)


def _with_twins(plugin: InstalledPlugin, same: Mapping[str, InstalledPlugin]) -> InstalledPlugin:
    """Record the folders with the metadata of other distributions of the same name."""
    if len(same) == 1:
        return plugin
    folder = os.path.realpath(_folder(plugin.metadata))
    twins = [
        place for place, other in same.items() if place != folder and not (_in_source(other, plugin) or _in_source(plugin, other))
    ]
    return dataclasses.replace(plugin, twins=tuple(twins))


def _in_source(plugin: InstalledPlugin, editable: InstalledPlugin) -> bool:
    """Return whether metadata is that in the source folder of an editable install."""
    return is_within(plugin.location, editable_source(editable.metadata))


def _plugins(distribution: Any, group: str) -> list[InstalledPlugin]:
    points = list(_entry_points(distribution, group))
    if not points or not (distribution.read_text("METADATA") or distribution.read_text("PKG-INFO")):
        return []  # an interrupted installation leaves no metadata
    metadata = distribution.metadata  # parsed at each access
    name, version = metadata["Name"], metadata["Version"]
    if not name or not version:
        raise ValueError("its metadata has no Name" if not name else "its metadata has no Version")
    location = str(distribution.locate_file(""))
    return [
        InstalledPlugin(point.name, point.value, name, version, location, point, is_own(name, point.value, distribution))
        for point in points
    ]


def _folder(distribution: Any) -> str:
    """Return the folder of a distribution's metadata, else its place of installation."""
    return str(getattr(distribution, "_path", None) or distribution.locate_file(""))


class _Unchecked(EntryPoint):
    """An entry point that is checked when it is loaded.

    From importlib-metadata 10 on, every entry point is checked then.
    """

    def __init__(self, name: str, value: str, group: str, dist: Any) -> None:
        vars(self).update(name=name, value=value, group=group, dist=dist)


def _entry_points(distribution: Any, group: str) -> Iterable[EntryPoint]:
    try:
        return list(distribution.entry_points.select(group=group))
    except ValueError:  # importlib-metadata 8 and 9 refuse all of a distribution if the value of one is invalid
        parser = configparser.ConfigParser(delimiters="=", strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(distribution.read_text("entry_points.txt") or "")
        items = parser.items(group) if parser.has_section(group) else ()
        return [_Unchecked(name, value, group, distribution) for name, value in items]


def states(config: Config, group: str = GROUP) -> list[PluginStatus]:
    """List the plugins' states, and warn of names in `disable` that are not installed.

    Raises PluginLoadError if a plugin in `plugins` is missing.
    """
    plugins = discover(group)
    known = {plugin.name for plugin in plugins}
    for name in config.plugins or ():
        if isinstance(name, str) and name not in known:
            raise missing(name, known, config.origins["plugins"])
    absent = [f"no plugin {name!r}{nearest(name, known)}" for name in config.disable if name not in known]
    if absent:
        place = _place(config.origins["disable"])
        warn(f"`disable` of {place} has no effect: {', '.join(absent)} is installed; to fix this, install it, or remove the name")
    same = {name: [*found] for name, found in itertools.groupby(plugins, key=lambda plugin: plugin.name)}
    lock, disabled = Lock(config.allow), {*config.disable}
    rivals = {plugin: [other for other in same[plugin.name] if other is not plugin] for plugin in plugins}
    return [_state(plugin, config, disabled, lock, rivals[plugin]) for plugin in plugins]


def effective(found: Sequence[PluginStatus]) -> list[PluginStatus]:
    """Leave out the refused plugins whose names this project's own plugins serve."""
    served = {each.found.name for each in found if each.state == "on"}
    return [each for each in found if each.state != "refused" or each.found.name not in served]


def plugins_for(ops: Iterable[str], off: Iterable[PluginStatus]) -> list[str]:
    """List the plugins for torch operators, installed but off or to install.

    A name without an operator, as ``quantized::``, stands for its namespace.
    """
    lines = [f"the plugin {state.found.name!r} ({state.found.origin}) is installed but off: {state.reason}" for state in off]
    installed = {canonicalize_name(plugin.distribution) for plugin in discover() if plugin.own}
    ours: dict[str, str] = {}
    for op in sorted(ops):
        space, _, name = op.partition("::")
        if "quant" in name:  # torch has fake quantization among its general operators
            ours.setdefault(op, _PLUGINS["quantized"])
        elif space in _PLUGINS:
            ours[f"the {'operators' if name or space in _QUANTIZED else 'classes'} of {space}::"] = _PLUGINS[space]
    return [*lines, *(f"`pip install {plugin}` brings {what}" for what, plugin in ours.items() if plugin not in installed)]


def missing(name: str, known: Collection[str], origin: str) -> PluginLoadError:
    """Make the error about a plugin that is not installed."""
    installed = ", ".join(sorted({*known})) or "none"
    return PluginLoadError(
        f"there is no plugin {name!r}{nearest(name, known)}, which {_place(origin)} names; installed: {installed}. Plugins "
        "are distributions of their own; onnxexp's are called onnxexp-plugin-..., as in `pip install onnxexp-plugin-aten`"
    )


def _state(
    plugin: InstalledPlugin, config: Config, disabled: set[str], lock: Lock, rivals: Sequence[InstalledPlugin]
) -> PluginStatus:
    if plugin.name in disabled:
        return PluginStatus(plugin, "off", f"disabled by {_place(config.origins['disable'])}")
    if config.plugins is not None and plugin.name not in config.plugins and ... not in config.plugins:
        return PluginStatus(plugin, "off", f"not among the plugins of {_place(config.origins['plugins'])}")
    if plugin.is_target and plugin.name != config.target:
        return PluginStatus(plugin, "off", f"it is for target={plugin.name!r} alone")
    kind = "plugin" if plugin.point.group == GROUP else "command"
    if (owner := OWNERS.get((plugin.point.group, plugin.name))) and not plugin.own:
        reason = f"only {owner} may have a {kind} of this name: uninstall {plugin.distribution}, or ask its authors to rename it"
        return PluginStatus(plugin, "refused", reason)
    others = " and ".join(other.origin for other in rivals if other.own >= plugin.own)
    if others:
        return PluginStatus(plugin, "refused", f"{others} has a {kind} of this name too: uninstall one of them")
    if reason := lock.refusal(plugin):
        return PluginStatus(plugin, "refused", f"{reason} by the lock `allow` of {_place(config.origins['allow'])}")
    return PluginStatus(plugin, "on")


def check_target(config: Config, all_: Sequence[PluginStatus]) -> None:
    """Raise PluginLoadError where the target is that of a plugin which is not on."""
    own = next((each for each in all_ if each.found.name == config.target), None)
    if config.target not in TARGETS and (own is None or own.state != "on"):
        fix = f"`pip install {_PLUGINS.get(config.target, config.target)}`" if own is None else f"it is {own.state}: {own.reason}"
        named = f"target={config.target!r}, of {_place(config.origins['target'])},"
        raise PluginLoadError(f"{named} needs the plugin of that name: {fix}; to fix this, install it, or switch it on")


def _place(origin: str) -> str:
    return "the call" if origin == "call" else origin


def record_hash(plugin: InstalledPlugin) -> str:
    """Hash the files of a plugin's distribution, "" if it has no RECORD."""
    return distribution_files.record_hash(plugin.metadata, plugin.location)


def _search_path() -> tuple[tuple[str, _Metadata], ...]:
    """Return the folders of `sys.path`, each with the metadata there.

    The working directory is left out unless packages are installed there.
    """
    folder = working_directory()
    entries = [entry for entry in sys.path if entry and (folder or os.path.isabs(entry))]
    here = None if not folder or os.path.realpath(folder) in _site_packages() else _status(folder)
    found = [(entry, _status(entry)) for entry in entries]
    return tuple(
        (entry, () if status is None else _metadata_in(entry, status.st_mtime_ns))
        for entry, status in found
        if here is None or status is None or not os.path.samestat(status, here)
    )


@functools.lru_cache(maxsize=256)
def _metadata_in(folder: str, changed: int) -> _Metadata:
    """Return the names and times of the distributions in a folder.

    For a file, it is the file's own time. A script's folder is on the path too, and changes whenever the script writes a model
    there.
    """
    try:
        with os.scandir(folder) as entries:
            metadata = [each for each in entries if each.name.lower().endswith(_METADATA_ENDINGS)]
            return tuple((each.name, each.stat().st_mtime_ns) for each in metadata)
    except OSError:
        return (("", changed),)


@functools.cache
def _site_packages() -> frozenset[str]:
    return frozenset(os.path.realpath(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))


def _status(path: str) -> os.stat_result | None:
    """Return a file's status, or None if there is no file."""
    try:
        return os.stat(path)
    except OSError:
        return None


class Lock:
    """The locks of all places of the configuration, which a plugin must all pass."""

    def __init__(self, allow: Sequence[frozenset[str]]) -> None:
        self._locks = [[entry.partition("@")[::2] for entry in lock] for lock in allow]
        self._hash = functools.cache(distribution_files.record_hash)  # a distribution may have thousands of entry points
        self._misplaced = functools.cache(distribution_files.misplaced)

    def refusal(self, plugin: InstalledPlugin) -> str:
        """Return the reason why a plugin may not load, or "" if it may.

        The check imports nothing.
        """
        if not self._locks:
            return ""
        name = canonicalize_name(plugin.distribution)
        allowed = [{digest for entry, digest in lock if canonicalize_name(entry) == name} for lock in self._locks]
        if not all(allowed):
            return f"the distribution {plugin.distribution} is not allowed"
        if file := self._misplaced(plugin.point.module, plugin.metadata, plugin.location):
            return f"{file}, which an import would run, is no file of {plugin.origin} and not allowed"
        pinned = [digests for digests in allowed if digests != {""}]
        found = self._hash(plugin.metadata, plugin.location) if pinned else ""
        if not all("" in digests or found in digests for digests in pinned):
            return f"the contents of {plugin.origin} ({found or 'it has no RECORD'}) are not those allowed"
        return "" if any(found in digests for digests in pinned) else _ambiguous(plugin, name)


def _ambiguous(plugin: InstalledPlugin, name: str) -> str:
    """Return the reason why a distribution's name is not enough, or "" if it is."""
    if name in OWNERS.values() and not plugin.own:
        return f"{plugin.distribution} in {plugin.location} has another project's files and is not allowed"
    if not plugin.twins:
        return ""
    return f"{plugin.distribution} is installed twice, see {plugin.twins[0]}, and its name alone is not allowed"
