"""Run the `onnxexp` command.

A command's module is imported when it runs, and torch only if it is needed. Plugins may add commands (`plugin_commands.py`).

Exit status: 0 for success; 1 for a negative result (a check found problems, a verification found differences); 2 for wrong usage
or an error; 128 and the signal's number after Ctrl-C (130), SIGTERM (143) or SIGHUP (129).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from onnxexp._cli import plugin_commands
from onnxexp._cli.common_arguments import UsageError, add_common
from onnxexp._cli.standard_streams import complain, discard, open_closed_streams
from onnxexp._cli.text_or_json import Output, readable
from onnxexp._errors import OnnxExporterError
from onnxexp._plugins.own_distributions import OWNERS
from onnxexp._suggest import nearest
from onnxexp._version import __version__

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "export": "write a model as ONNX",
    "check": "show which plugin would lower each operator of a model, and list all obstacles, without writing a file",
    "verify": "compare an ONNX file with its PyTorch model, and find the first node that differs",
    "explain": "show where the nodes of an ONNX file come from: module, source line, operator, symbolic",
    "diff": "show what changed between two ONNX files, by module",
    "fix": "give the dynamic sizes of an ONNX file, of any exporter, fixed numbers",
    "plugins": "list the installed plugins; `plugins why OP` shows which plugin lowers an operator",
    "ops": "list the operators that the plugins lower",
    "config": "show each setting and its origin",
    "doctor": "check the installation and list its problems",
    "new-plugin": "create a plugin: a distribution ready to build, test and publish",
    "completion": "print what bash, zsh or fish needs to complete commands, options, plugins and operators with Tab",
}
"""The built-in commands."""


class _Help(argparse.HelpFormatter):
    """Help whose examples keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


_EXAMPLES = "examples:"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message + _suggestion(message, self), self.format_usage())


def _suggestion(message: str, parser: argparse.ArgumentParser) -> str:
    """Suggest the nearest known option or choice, or the plugin to install."""
    option = re.match(r"unrecognized arguments: (--[\w-]+)", message)
    if option is not None:
        return nearest(option[1], sorted(_options(parser)))
    choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    if choice is None:
        return ""
    if message.startswith("argument COMMAND:") and (owner := OWNERS.get((plugin_commands.GROUP, choice[1]))) is not None:
        return f"; `pip install {owner}` brings this command"
    return nearest(choice[1], re.findall(r"[\w-]+", choice[2]))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser and of its commands."""
    for action in parser._actions:  # argparse lists them nowhere else
        yield from action.option_strings
        for command in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from _options(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, the process's own if `argv` is None.

    Returns the exit status.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if "_ARGCOMPLETE" in os.environ:  # a shell's Tab
        from onnxexp._cli.completion import complete

        complete(lambda before: _parser(before)[0])
    open_closed_streams()
    output = Output("--json" in words)
    try:
        with signals_raised():
            options, command = _parse(words)
            output = Output(vars(options).get("json", False))
            with output.alone():
                return int(command.run(options, output))
    except UsageError as error:
        return _fail(output, error, f"{error.usage}onnxexp: {error}", words)
    except OnnxExporterError as error:
        return _fail(output, error, f"onnxexp: {error}", words)
    except Terminated as error:
        complain(f"onnxexp: {error}")
        return error.status
    except KeyboardInterrupt:
        complain("onnxexp: interrupted")
        return 130
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        discard(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - the last resort: one clear message, and the traceback on demand
        text = (
            f"onnxexp: {type(error).__name__}: {error}\nThis looks like a bug in onnxexp or in a plugin; --traceback shows where."
        )
        return _fail(output, error, text, words)


def _fail(output: Output, error: BaseException, text: str, words: Sequence[str]) -> int:
    complain(readable("".join(traceback.format_exception(error)) if "--traceback" in words else text, sys.stderr))
    output.document({"error": {"kind": type(error).__name__, "message": str(error)}})
    return 2


def _parse(words: Sequence[str]) -> tuple[argparse.Namespace, Any]:
    """Parse a command line, and return the arguments and the module of the command."""
    parser, module = _parser(words)
    return parser.parse_args(words), module


def _parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser for a command line, and the module of its command.

    No other command's module is imported, except that the list of commands needs the summaries of the plugins' commands.
    """
    parser = _Parser(
        prog="onnxexp",
        description="Export PyTorch models to ONNX.",
        epilog="`onnxexp COMMAND --help` describes a command's arguments.",
    )
    parser.add_argument("--version", action="version", version=f"onnxexp {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    place = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    chosen = words[place] if place < len(words) else ""
    module = _module(chosen) if chosen in COMMANDS else None
    if chosen == "export":
        module = plugin_commands.export_command(words[place + 1 :]) or module
    summaries = dict(COMMANDS)
    if module is None:
        listed = any(word.startswith(("-h", "--h")) for word in words[:place])
        module, found = plugin_commands.find(chosen, taken=COMMANDS, summaries=listed)
        summaries |= found
    for name, summary in summaries.items():
        text = f"{summary[:1].upper()}{summary[1:]}."
        command = commands.add_parser(
            name, help=summary.replace("%", "%%"), description=text, allow_abbrev=False, formatter_class=_Help
        )
        add_common(command)
        if name == chosen:
            module.arguments(command)
            command.epilog = examples(module)
    return parser, module


def examples(module: Any) -> str | None:
    """Return the examples of a command's module as text."""
    found = [f"  {line}\n      {meaning}" for line, meaning in vars(module).get("EXAMPLES", ())]
    return "\n".join([_EXAMPLES, *found]).replace("%", "%%") if found else None


def _module(command: str) -> Any:
    return importlib.import_module(f"onnxexp._cli.{command.replace('-', '_')}_command")


_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP


class Terminated(KeyboardInterrupt):
    """Another process ends this one, which cleans up as after Ctrl-C.

    Attributes:
        status: The exit status.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.status = 128 + number


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Terminated` at the first SIGTERM or SIGHUP inside the `with`.

    Later signals are ignored. A signal with a handler, or one that is ignored as under nohup, is left alone. All signals are left
    alone in another thread than the main one, where Python sets no handlers. A child process that is forked inside the `with`
    ends at the signal.
    """
    owner = os.getpid()

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    main = threading.current_thread() is threading.main_thread()
    taken = [each for each in _SIGNALS if main and signal.getsignal(each) == signal.SIG_DFL]
    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
