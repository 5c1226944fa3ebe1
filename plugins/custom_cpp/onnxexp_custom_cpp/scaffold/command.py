"""The command `onnxexp scaffold-op`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnxexp import OptionError
from onnxexp.commands import Output

SUMMARY = "write a plugin around a new C++ operator: for torch, for ONNX Runtime, with its symbolic and a test"


EXAMPLES = (
    (
        "onnxexp scaffold-op fused_gate --schema 'fused_gate(Tensor x, Tensor gate) -> Tensor'",
        "a plugin around a new operator, in the new folder fused_gate",
    ),
    (
        "onnxexp scaffold-op fused_gate --schema 'fused_gate(Tensor x) -> Tensor' --namespace acme --domain com.acme",
        "with names of your own",
    ),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="the operator's name, such as fused_gate")
    parser.add_argument(
        "--schema", required=True, nargs="+", metavar=("SCHEMA", "DIR"),
        help='its torch schema: "fused_gate(Tensor a, Tensor b, float s) -> Tensor"',
    )  # fmt: skip
    parser.add_argument("--namespace", metavar="NAME", help="torch's namespace (default: NAME_ops)")
    parser.add_argument("--domain", metavar="DOMAIN", help="the ONNX domain (default: the namespace)")
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="where to write it (default: a new folder NAME)")


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the files, and print the next steps."""
    from onnxexp_custom_cpp.scaffold.plugin_files import create

    schema, *after = options.schema  # argparse gives a folder that follows the schema to the schema
    folders = [*map(Path, after), *([options.directory] if options.directory else [])]
    if len(folders) > 1:
        raise OptionError(f"there is one DIR, and {' and '.join(map(str, folders))} are given: is the schema in quotes?")
    directory = folders[0] if folders else Path(options.name)
    files = create(options.name, schema, directory, namespace=options.namespace, domain=options.domain)
    for file in files:
        output.line(str(file))
    output.line()
    output.line(f"next: pip install --no-build-isolation -e {directory}, pytest {directory}, and `onnxexp plugins`")
    output.document({"directory": str(directory), "files": [str(file) for file in files]})
    return 0
