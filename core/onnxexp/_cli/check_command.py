"""The command `onnxexp check`: a dry run of an export."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from onnxexp._cli.export_call import add_arguments, flags_in_messages, prepare
from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import UnsupportedOperators

if TYPE_CHECKING:
    from onnxexp._check import CheckReport
    from onnxexp._neutral_graph import Node

_NOT_FOR_CHECKS = ("external_data", "verify", "verbose")


EXAMPLES = (
    ("onnxexp check models.py:mlp --opset 13", "which plugin lowers each operator, and every problem at once"),
    ("onnxexp check models.py:mlp --nodes", "every node with its line in the source"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_arguments(parser)
    parser.add_argument("--nodes", action="store_true", help="list every node with its source line, not only the operators")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print which plugin lowers each operator, and return 1 if an export would fail."""
    with Progress() as progress:
        prepared = prepare(options, progress)
        from onnxexp._check import check

        arguments = {name: value for name, value in prepared.options.items() if name not in _NOT_FOR_CHECKS}
        with flags_in_messages(options):
            report = check(prepared.model, prepared.args, **arguments)
    if options.nodes:
        rows = [[node.op, by or "nobody", _where(node)] for node, by in report.lowered]
        output.table(["operator", "lowered by", "where"], rows)
    else:
        counts = Counter((by or "nobody", node.op) for node, by in report.lowered)
        output.table(["operator", "nodes", "lowered by"], [[op, str(count), by] for (by, op), count in sorted(counts.items())])
    output.line()
    output.line(str(report), "green" if report.ok else "")
    output.document(_document(report))
    return 0 if report.ok else 1


def _document(report: CheckReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "opset": report.opset,
        "nodes": [{"op": node.op, "by": by or None, "where": _where(node)} for node, by in report.lowered],
        "kind": type(report.error).__name__ if report.error is not None else None,
        "message": report.message,
        "unsupported": report.error.counts if isinstance(report.error, UnsupportedOperators) else {},
    }


def _where(node: Node) -> str:
    return str(node.where)
