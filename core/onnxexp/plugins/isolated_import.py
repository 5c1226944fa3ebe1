"""Import one plugin completely or not at all, never from the working directory."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from onnxexp.errors import PluginLoadError
from onnxexp.plugins.discovery import InstalledPlugin
from onnxexp.plugins.distribution_files import editable_source

__all__ = ["import_object"]


def import_object(found: InstalledPlugin) -> Any:
    """Import an entry point's object; unload the rest if the import raises."""
    if found.point.module in sys.modules:
        return found.point.load()
    package = found.point.module.partition(".")[0]
    if package not in sys.modules:
        _refuse_working_directory(found, package)
    before = set(sys.modules)
    try:
        return found.point.load()
    except BaseException:  # unload what it imported, so that the next try fails in the same way
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == package:
                del sys.modules[name]
        raise


def _refuse_working_directory(found: InstalledPlugin, package: str) -> None:
    """Refuse a folder or file in the working directory that hides an installed plugin."""
    spec = importlib.util.find_spec(package)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
    here = os.path.realpath(os.getcwd())
    for place in places:
        if place and os.path.dirname(os.path.realpath(_folder(place, package))) == here and not _installed_there(found, here):
            raise PluginLoadError(
                f"the module {package!r} would be loaded from the working directory ({place}), not from where {found.origin} is "
                "installed; run from elsewhere, or rename it"
            )


def _folder(place: str, package: str) -> str:
    """The package's folder, or the module's file."""
    parent = os.path.dirname(place)
    return parent if os.path.basename(parent) == package else place


def _installed_there(found: InstalledPlugin, here: str) -> bool:
    """Whether the plugin is an editable install, or packages are installed `here`."""
    editable = found.point.dist is not None and editable_source(found.point.dist)
    return bool(editable) or os.path.realpath(found.location) == here
