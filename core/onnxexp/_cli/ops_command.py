"""The command `onnxexp ops`: list the operators that the plugins lower."""

from __future__ import annotations

import argparse
import fnmatch
from typing import Any

from onnxexp._cli.common_arguments import PluginSelection
from onnxexp._cli.config_command import load
from onnxexp._cli.text_or_json import Output, Progress

EXAMPLES = (
    ("onnxexp ops", "every operator, with its opsets and its plugin"),
    ("onnxexp ops 'aten::conv*'", "those of one name or pattern"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "pattern", nargs="?", default="", metavar="PATTERN", help="a part of the name, or a pattern such as aten::conv*"
    )
    PluginSelection.add_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """List the operators that are lowered at the opset, without those in conflict.

    Returns 1 if no operator matches the pattern.
    """
    with Progress() as progress:
        progress.stage("loading torch and the plugins")
        from onnxexp._cli.symbolic_limits_text import limits
        from onnxexp._plugins.loading import load as load_plugins

        config = load(options)
        dispatcher = load_plugins(config).dispatcher
    listed: list[dict[str, Any]] = []
    for op in (op for op in sorted(dispatcher.operators) if _fits(op, options.pattern) and not dispatcher.conflict(op)):
        listed += [
            {
                "op": op, "plugin": each.source.plugin, "since": each.symbolic.since, "until": each.symbolic.until,
                "serves": limits(each.symbolic), "direct": each.symbolic.direct, "location": each.symbolic.location,
            }
            for each in dispatcher.candidates(op, config.opset)[:1]
        ]  # fmt: skip
    output.table(
        ["operator", "plugin", "serves", "ONNX operator"],
        [[row["op"], row["plugin"], row["serves"], row["direct"]] for row in listed],
    )
    kind = f" like {options.pattern!r}" if options.pattern else ""
    counted = "1 operator" if len(listed) == 1 else f"{len(listed)} operators"
    output.line(f"{counted}{kind}: lowered at opset {config.opset}")
    output.document({"opset": config.opset, "operators": listed})
    return 0 if listed else 1


def _fits(op: str, pattern: str) -> bool:
    """Return whether a name contains the pattern, or matches its wildcards."""
    wild = any(mark in pattern for mark in "*?[")
    return fnmatch.fnmatchcase(op, pattern if "::" in pattern else f"*::{pattern}") if wild else pattern in op
