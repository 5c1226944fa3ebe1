"""The command `onnxexp config`: show each setting and its origin."""

from __future__ import annotations

import argparse
from typing import Any

from onnxexp._cli.common_arguments import PluginSelection
from onnxexp._cli.text_or_json import Output
from onnxexp._request import config

EXAMPLES = (
    ("onnxexp config", "each setting, and the file, variable or default that it comes from"),
    ("onnxexp config --json", "the same for a program"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    PluginSelection.add_arguments(parser)


def load(options: argparse.Namespace) -> config.Config:
    """Load the configuration, overridden by the command line."""
    chosen = PluginSelection.read(options)
    return config.load(plugins=chosen.plugins, disable=chosen.without, prefer=chosen.prefer, opset=chosen.opset_version)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the settings."""
    loaded = load(options)
    settings = [(name, vars(loaded)[name], origin.replace("call", "command line")) for name, origin in loaded.origins.items()]
    output.table(["setting", "value", "from"], [[name, _text(value), origin] for name, value, origin in settings])
    output.document([{"name": name, "value": _plain(value), "origin": origin} for name, value, origin in settings])
    return 0


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{key}={name}" for key, name in value.items()) or "none"
    if isinstance(value, (tuple, frozenset)):
        return ", ".join(map(_text, sorted(value) if isinstance(value, frozenset) else value)) or "none"
    return "..." if value is ... else "every installed one" if value is None else str(value)


def _plain(value: Any) -> Any:
    """Convert a value for JSON."""
    if isinstance(value, (tuple, frozenset)):
        return [_plain(element) for element in (sorted(value) if isinstance(value, frozenset) else value)]
    return "..." if value is ... else value
