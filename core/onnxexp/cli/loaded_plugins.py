"""Load each installed plugin by itself, so that a broken one can be reported."""

from __future__ import annotations

import dataclasses

from onnxexp.errors import PluginError
from onnxexp.plugins.discovery import PluginStatus, states
from onnxexp.plugins.loading import Plugin, load
from onnxexp.request.config import Config

__all__ = ["load_all"]


def load_all(config: Config) -> list[tuple[PluginStatus, Plugin | PluginError | None]]:
    """Load all installed plugins; the error where that fails, None if off or refused."""
    return [(state, _loaded_or_error(state, config) if state.state == "on" else None) for state in states(config)]


def _loaded_or_error(state: PluginStatus, config: Config) -> Plugin | PluginError:
    alone = dataclasses.replace(config, plugins=(state.found.name,), disable=(), prefer={})
    try:
        return load(alone).loaded[0]
    except PluginError as error:
        return error
