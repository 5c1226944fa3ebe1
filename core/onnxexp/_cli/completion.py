"""Complete a command line, in the process that a shell starts for Tab."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onnxexp._plugins.discovery import discover
from onnxexp._request import config
from onnxexp._serialize.atomic_file import new_file
from onnxexp._version import __version__

_COMMAS = {"plugins", "without"}
"""Arguments with several plugins, separated by commas."""
_OPERATORS = {"op", "pattern"}


def complete(parser_for: Callable[[list[str]], argparse.ArgumentParser]) -> None:
    """Write the completions of the shell's line, and end the process.

    `parser_for` returns the parser for the words before the one that is completed.
    """
    import argcomplete
    from argcomplete.lexers import split_line

    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    _, _, _, words, _ = split_line(line, point)
    parser = parser_for(words[1:])
    for action in _actions(parser):
        if action.dest in _COMMAS:
            vars(action)["completer"] = _plugins
        elif action.dest in _OPERATORS:
            vars(action)["completer"] = _operators
    argcomplete.autocomplete(parser, always_complete_options=False)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # argparse lists them nowhere else
        yield action
        for command in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from _actions(command)


def _plugins(prefix: str, **_: Any) -> list[str]:
    """Complete the last of the plugins in a list."""
    before, comma, _last = prefix.rpartition(",")
    return [f"{before}{comma}{point.name}" for point in discover()]


def _operators(prefix: str, **_: Any) -> list[str]:
    """Complete an operator, from a list that is kept.

    The plugins' tables take seconds to load. There is a list for each set of plugins and settings.
    """
    import platformdirs

    settings = config.load()
    installed = sorted(f"{point.name} {point.distribution} {point.version}" for point in discover())
    key = hashlib.sha256("\n".join([__version__, str(settings), *installed]).encode()).hexdigest()[:16]
    file = Path(platformdirs.user_cache_path("onnxexp")) / f"operators-{key}.txt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with new_file(str(file)) as new:
            new.file.write("\n".join(_lowered(settings)).encode())
            new.publish()
    return file.read_text("utf-8").split()


def _lowered(settings: config.Config) -> list[str]:
    """List the operators that the plugins lower."""
    from onnxexp._plugins.loading import load

    nowhere = io.StringIO()  # plugins may print while they are loaded
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return sorted(load(settings).dispatcher.operators)
