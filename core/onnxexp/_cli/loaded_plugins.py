"""Load each installed plugin by itself, so that a broken one can be reported."""

from __future__ import annotations

from onnxexp._errors import PluginError
from onnxexp._plugins.discovery import PluginStatus, states
from onnxexp._plugins.loading import load_plugin
from onnxexp._plugins.plugin import Plugin
from onnxexp._request.config import Config


def load_all(config: Config) -> list[tuple[PluginStatus, Plugin | PluginError | None]]:
    """Load all installed plugins.

    A plugin that fails is paired with its error, one that is off or refused with None.
    """
    return [(state, _loaded_or_error(state) if state.state == "on" else None) for state in states(config)]


def _loaded_or_error(state: PluginStatus) -> Plugin | PluginError:
    try:
        return load_plugin(state.found)
    except PluginError as error:
        return error
