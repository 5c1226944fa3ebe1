"""Import one plugin completely or not at all, never from the working directory.

A slow import is not stopped, but a message names its plugin.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import importlib_metadata

from onnxexp._errors import PluginLoadError, summary
from onnxexp._plugins.distribution_files import editable_source
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._request.config import working_directory

SLOW = 10.0
"""Seconds after which an import is named."""


def import_object(found: InstalledPlugin, what: str, fix: str) -> Any:
    """Import an entry point's object.

    Anything that the import raises, also SystemExit but not KeyboardInterrupt, becomes a PluginLoadError. `what` names the plugin
    in it.
    """
    try:
        return _imported(found, what)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # it may raise anything
        raise PluginLoadError(f"{what} does not load: {summary(error)}{_place(error)}; {fix}") from error


def _imported(found: InstalledPlugin, what: str) -> Any:
    """Import an entry point's object, and unload the rest if the import raises."""
    if found.point.module in sys.modules:
        return found.point.load()
    package = found.point.module.partition(".")[0]
    if package not in sys.modules:
        _refuse_working_directory(found, package)
    before = set(sys.modules)
    try:
        with _named_if_slow(what):
            return found.point.load()
    except BaseException:  # unload what it imported, so that the next try fails in the same way
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == package:
                del sys.modules[name]
        raise


@contextlib.contextmanager
def _named_if_slow(what: str) -> Iterator[None]:
    """Print the plugin's name if the `with` takes longer than `SLOW` seconds."""
    text = f"onnxexp: {what} has been loading for {SLOW:g} s; Ctrl-C stops it, and `disable` leaves it out"
    timer = threading.Timer(SLOW, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _place(error: BaseException) -> str:
    """Format the place of a failed import as " (file:line)".

    Returns "" for places outside of the plugin's code.
    """
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    own = (importlib.__file__, __file__, importlib_metadata.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and frames[-1].filename not in own else ""


def _refuse_working_directory(found: InstalledPlugin, package: str) -> None:
    """Refuse a file in the working directory that hides an installed plugin."""
    spec = importlib.util.find_spec(package)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
    here = os.path.realpath(working_directory() or os.sep)
    for place in places:
        if place and os.path.dirname(os.path.realpath(_folder(place, package))) == here and not _installed_there(found, here):
            raise PluginLoadError(
                f"the module {package!r} would be loaded from the working directory ({place}), not from where {found.origin} is "
                "installed; run from elsewhere, or rename it"
            )


def _folder(place: str, package: str) -> str:
    """Return the package's folder, or the module's file."""
    parent = os.path.dirname(place)
    return parent if os.path.basename(parent) == package else place


def _installed_there(found: InstalledPlugin, here: str) -> bool:
    """Return whether the plugin is an editable install, or is installed in `here`."""
    return bool(editable_source(found.metadata)) or os.path.realpath(found.location) == here
