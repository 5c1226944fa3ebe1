"""Arguments shared by several commands, and their conversion."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from onnxexp._errors import OptionError


class UsageError(Exception):
    """The command line is malformed.

    `usage` is the command's usage text.
    """

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of every command.

    Without such a flag, a subcommand keeps its parent's value.
    """
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document and nothing else")
    parser.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="show the Python traceback of an error"
    )


@dataclasses.dataclass(frozen=True)
class PluginSelection:
    """The plugins and the opset that a command line selects.

    The fields have the names and the values of the arguments of `export`.
    """

    opset_version: int | None
    plugins: list[str] | None
    without: list[str]
    prefer: dict[str, str] | None

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser, *, inherited: bool = False) -> None:
        """Declare the arguments of a command that `read` needs.

        With `inherited`, an absent argument keeps the parent command's value.
        """
        none: Any = argparse.SUPPRESS if inherited else None
        empty: Any = argparse.SUPPRESS if inherited else []
        group = parser.add_argument_group("plugins and opset (they override the configuration, see `onnxexp config`)")
        group.add_argument("--opset", type=int, metavar="N", default=none, help="the target opset")
        group.add_argument(
            "--plugins",
            action="append",
            metavar="A,B",
            default=none,
            help="exactly these plugins; `...` stands for every other installed one",
        )
        group.add_argument("--without", action="append", metavar="A,B", default=empty, help="leave these plugins out")
        group.add_argument(
            "--prefer", action="append", metavar="OP=PLUGIN", default=empty, help="the plugin for an operator that several claim"
        )  # fmt: skip

    @classmethod
    def read(cls, options: argparse.Namespace) -> PluginSelection:
        """Read the selection from a parsed command line.

        Raises OptionError where an argument has another form.
        """
        prefer: dict[str, str] = {}
        for pair in names(options.prefer) or ():
            op, equals, plugin = pair.rpartition("=")
            if not equals or "::" not in op or not plugin:
                raise OptionError(f"--prefer {pair}: expected OP=PLUGIN, as in aten::gelu=my-plugin")
            prefer[op.strip()] = plugin.strip()
        return cls(options.opset, names(options.plugins), names(options.without) or [], prefer or None)


def add_target(parser: argparse.ArgumentParser, *, dynamic: bool = True) -> None:
    """Declare the arguments for a target's weights, example inputs and dynamic axes."""
    parser.add_argument(
        "--weights", metavar="PATH",
        help="weights for the model, which may be on the meta device: a safetensors file, or a folder with one or with its index",
    )  # fmt: skip
    group = parser.add_argument_group("example inputs")
    group.add_argument(
        "--input", action="append", metavar="SPEC", default=[],
        help="an example input in the order of the parameters (float32[2,3]) or by name (ids=int64[1,8]) (repeatable)",
    )  # fmt: skip
    if dynamic:
        group.add_argument(
            "--dynamic", action="append", metavar="INPUT:AXIS=NAME,...", default=[],
            help="dynamic axes of an input (x:0=batch,1=seq), or a dynamic number (steps=n) (repeatable)",
        )  # fmt: skip
    group.add_argument(
        "--allow-pickle", action="store_true",
        help="let a .pt2 file run code while it is loaded; only for files that you trust like a program",
    )  # fmt: skip


def names(values: Sequence[str] | None) -> list[str] | None:
    """Split repeated, comma-separated arguments into one list, or keep None."""
    if values is None:
        return None
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def dynamic_shapes(texts: Sequence[str]) -> dict[str, Any] | None:
    """Parse ``x:0=batch,1=seq`` to ``{"x": {0: "batch", 1: "seq"}}``.

    An axis without a name is Dim.DYNAMIC.
    """
    shapes: dict[str, Any] = {}
    for text in texts:
        name, colon, axes = text.rpartition(":")
        if not colon:
            number, equals, symbol = text.partition("=")
            if not equals or not number or not symbol:
                raise _bad_dynamic(text)
            shapes[number] = symbol
            continue
        read = dict(_axis(text, part) for part in axes.split(","))
        shapes[name] = {**shapes.get(name, {}), **read}
    return shapes or None


def _axis(text: str, part: str) -> tuple[int, Any]:
    from torch.export import Dim

    axis, equals, symbol = part.partition("=")
    try:
        number = int(axis)
    except ValueError:
        raise _bad_dynamic(text) from None
    if equals and not symbol.strip():
        raise _bad_dynamic(text)
    return number, symbol.strip() if equals else Dim.DYNAMIC


def _bad_dynamic(text: str) -> OptionError:
    return OptionError(f"--dynamic {text}: expected INPUT:AXIS=NAME,... as in x:0=batch,1=seq, or NUMBER=NAME")
