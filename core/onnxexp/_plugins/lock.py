"""The lock `allow`, with the plugins that may load, and from which files."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from onnxexp._plugins.distribution_files import misplaced, record_hash
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._plugins.own_distributions import OWNERS


class Lock:
    """The locks of all places of the configuration, which a plugin must all pass."""

    def __init__(self, allow: Sequence[frozenset[str]]) -> None:
        self._locks = [[entry.partition("@")[::2] for entry in lock] for lock in allow]
        self._hash = functools.cache(record_hash)  # a distribution may have thousands of entry points
        self._misplaced = functools.cache(misplaced)

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
