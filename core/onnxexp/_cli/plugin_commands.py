"""Commands of plugins, from entry points of the group ``onnxexp.commands``.

The entry point's name is the command, its value a module with `SUMMARY` (a literal, one line as in `onnxexp --help`),
`arguments(parser)` and `run(options, output) -> int`, which returns the exit status. `EXAMPLES`, pairs of a command line and what
it does, are shown by ``--help``. Such a module is imported only when its
command runs: for the list of commands, onnxexp reads the summaries from the source.

An entry point of the group ``onnxexp.targets`` is such a module too. Its name is a scheme, and its command takes the place of
``onnxexp export`` for targets of that scheme: ``onnxexp export hf:FOLDER``.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Container, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.utils import canonicalize_name

from onnxexp._errors import OnnxExporterError, PluginLoadError
from onnxexp._plugins.discovery import PluginStatus, discover, effective, states
from onnxexp._plugins.distribution_files import module_spec
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._plugins.isolated_import import import_object
from onnxexp._request import config

GROUP = "onnxexp.commands"
TARGETS = "onnxexp.targets"


def export_command(words: Sequence[str]) -> Any:
    """Return the module for a target with a scheme, or None for the built-in command.

    `words` are the arguments of ``onnxexp export``. Raises PluginLoadError where the module is off, refused or does not load.
    """
    schemes = {point.name for point in discover(TARGETS)}
    for word in words:
        scheme, colon, _ = word.partition(":")
        if colon and scheme in schemes:
            return _loaded(next(command for command in effective(_installed(TARGETS)) if command.found.name == scheme))
    return None


def find(chosen: str, *, taken: Container[str], summaries: bool) -> tuple[Any, dict[str, str]]:
    """Find the commands that the configuration leaves on.

    Args:
        chosen: The command to load, or "".
        taken: The names of built-in commands, which no plugin replaces.
        summaries: Whether the summaries of the other commands are needed too; else they are "".

    Returns:
        The module of the chosen command, None if no plugin has it, and the summary of each command.

    Raises:
        PluginLoadError: The chosen command is off, refused or does not load.
        OnnxExporterError: The configuration cannot be read, and the chosen command depends on it.
    """
    names = {point.name for point in discover(GROUP) if point.name not in taken}
    try:
        commands = [command for command in effective(_installed()) if command.found.name in names] if names else []
    except OnnxExporterError:
        if chosen in names:
            raise
        commands = []  # the list of commands and a mistyped command do not depend on the configuration
    module = None
    summary_of = {}
    for command in commands:
        name = command.found.name
        if name == chosen:
            module = _loaded(command)
            summary_of[name] = module.SUMMARY
        elif command.state == "on":
            summary_of[name] = _summary(command.found) if summaries else ""
    return module, summary_of


def problems(taken: Container[str]) -> list[str]:
    """Describe the commands of plugins that do not work, without those that are off.

    Raises OnnxExporterError where the configuration cannot be read.
    """
    texts = []
    for command in _installed() if discover(GROUP) else ():
        point = command.found
        if point.name in taken:
            texts.append(f"the command {point.name!r} of {point.origin} is never called: onnxexp has one of this name")
        elif command.state != "off":
            try:
                _loaded(command)
            except PluginLoadError as error:
                texts.append(str(error))
    return texts


def _installed(group: str = GROUP) -> list[PluginStatus]:
    """List the commands of plugins.

    A command is off or refused where all plugins of its distribution are, where `allow` does not list its distribution, or where
    two distributions have a command of its name. Raises OnnxExporterError where the configuration cannot be read, or a configured
    plugin is missing.
    """
    settings = config.load()
    plugins = states(settings)
    commands = states(dataclasses.replace(settings, plugins=None, disable=()), group)
    return [_with_owner(command, plugins) if command.state == "on" else command for command in commands]


def _with_owner(command: PluginStatus, plugins: list[PluginStatus]) -> PluginStatus:
    """Give a command the status of its distribution's plugins if none of them is on."""
    distribution = canonicalize_name(command.found.distribution)
    owners = [each for each in plugins if canonicalize_name(each.found.distribution) == distribution]
    if not owners or any(each.state == "on" for each in owners):
        return command
    reason = f"its plugin {owners[0].found.name!r} is {owners[0].state}: {owners[0].reason}"
    return PluginStatus(command.found, owners[0].state, reason)


def _loaded(command: PluginStatus) -> Any:
    """Import a command's module.

    Raises PluginLoadError where the command is off or refused, or where the module does not load or lacks a part.
    """
    found = command.found
    which = f"the command {found.name!r} of {found.origin}"
    if command.state != "on":
        raise PluginLoadError(f"{which} is {command.state}: {command.reason}")
    module = import_object(found, f"{which} (entry point {found.value})", "reinstall or remove the distribution")
    contents = vars(module) if isinstance(module, ModuleType) else {}
    wrong = [name for name in ("arguments", "run") if not callable(contents.get(name))]
    summary = contents.get("SUMMARY")
    if not isinstance(summary, str) or not summary.strip():
        wrong.insert(0, "SUMMARY")
    if wrong:
        raise PluginLoadError(
            f"{which} (entry point {found.value}) lacks {', '.join(wrong)}: a command is a module with the text SUMMARY, "
            "arguments(parser) and run(options, output)"
        )
    return module


def _summary(found: InstalledPlugin) -> str:
    """Read a command's summary without importing its package, which may import torch."""
    try:
        spec = module_spec(found.point.module)
        file = Path(spec.origin) if spec is not None and spec.origin is not None else None
        for node in ast.parse(file.read_bytes()).body if file is not None else ():
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "SUMMARY"
                and isinstance(node.value, ast.Constant)
            ):
                return str(node.value.value)
    except (ImportError, OSError, SyntaxError, ValueError):  # the call of the command shows the error
        pass
    return f"a command of {found.distribution}"
