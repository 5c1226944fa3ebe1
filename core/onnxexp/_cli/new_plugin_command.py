"""The command `onnxexp new-plugin`: create a plugin from a template."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnxexp._cli.text_or_json import Output

EXAMPLES = (
    ("onnxexp new-plugin my-plugin", "a package in the new folder my-plugin"),
    ("onnxexp new-plugin my-plugin plugins/mine", "in another folder"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="the plugin's name, such as my-plugin")
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="where to write it (default: a new folder NAME)")


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the files, and print the next steps."""
    from onnxexp._cli.plugin_scaffold import create

    directory = options.directory or Path(options.name)
    files = create(options.name, directory)
    for file in files:
        output.line(str(file))
    output.line()
    output.line(f"next: pip install -e {directory}[test], pytest {directory}, and `onnxexp plugins`")
    output.document({"directory": str(directory), "files": [str(file) for file in files]})
    return 0
