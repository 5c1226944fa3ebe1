"""The `onnxexp` command. Each command's module is imported when it runs, and torch only by those that need it.

Exit status: 0 it went well; 1 the answer is "no" (a check that found problems, a verification that found differences);
2 wrong usage, or an error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from onnxexp.cli.common_arguments import UsageError, add_common
from onnxexp.cli.console_output import Output, readable
from onnxexp.errors import OnnxExporterError
from onnxexp.version import __version__

__all__ = ["main"]

_COMMANDS = {
    "export": "write a model as ONNX",
    "check": "say what would lower each operator of a model, and what stands in the way, without writing anything",
    "verify": "compare an ONNX file with the model that it came from",
    "plugins": "list the installed plugins; `plugins why OP` says who lowers an operator",
    "ops": "list the operators that the plugins lower",
    "config": "show each setting and where it comes from",
    "doctor": "look at the installation and say what is wrong with it",
    "new-plugin": "start a plugin of your own: a distribution ready to build, test and publish",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (that of the process where `argv` is None); returns the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    output = Output("--json" in given)
    try:
        options = _parse(given)
        output = Output(vars(options).get("json", False))
        with output.alone():
            return int(_module(options.command).run(options, output))
    except UsageError as error:
        return _fail(output, error, f"{error.usage}onnxexp: {error}", given)
    except OnnxExporterError as error:
        return _fail(output, error, f"onnxexp: {error}", given)
    except KeyboardInterrupt:
        print("onnxexp: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output, `head` for one, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not fail at the last flush
        return 0
    except Exception as error:  # noqa: BLE001 - the last resort: one clear message, and the traceback on demand
        text = (
            f"onnxexp: {type(error).__name__}: {error}\nThis looks like a bug in onnxexp or in a plugin; --traceback shows where."
        )
        return _fail(output, error, text, given)


def _fail(output: Output, error: BaseException, text: str, given: Sequence[str]) -> int:
    if "--traceback" in given:
        traceback.print_exception(error)
    else:
        print(readable(text, sys.stderr), file=sys.stderr)
    output.document({"error": {"kind": type(error).__name__, "message": str(error)}})
    return 2


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """The command's own arguments are declared by its module, which alone is imported."""
    parser = _Parser(prog="onnxexp", description="PyTorch models to ONNX.", epilog="`onnxexp COMMAND --help` says more.")
    parser.add_argument("--version", action="version", version=f"onnxexp {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in given if not word.startswith("-")), "")
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False)
        add_common(command)
        if name == chosen:
            _module(name).arguments(command)
    return parser.parse_args(given)


def _module(command: str) -> Any:
    return importlib.import_module(f"onnxexp.cli.{command.replace('-', '_')}_command")
