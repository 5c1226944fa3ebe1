"""The command `onnxexp completion`: print what a shell needs to complete with Tab."""

from __future__ import annotations

import argparse

from onnxexp._cli.text_or_json import Output
from onnxexp._errors import OnnxExporterError

EXAMPLES = (
    ("onnxexp completion bash", 'for ~/.bashrc: eval "$(onnxexp completion bash)"'),
    ("onnxexp completion zsh", 'for ~/.zshrc, after compinit: eval "$(onnxexp completion zsh)"'),
    ("onnxexp completion fish", "for ~/.config/fish/config.fish: onnxexp completion fish | source"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell that reads it")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the shell's code. Raises OnnxExporterError where argcomplete is missing."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise OnnxExporterError('completion needs argcomplete; to fix this, run pip install "onnxexp[completion]"') from None
    code = shellcode(["onnxexp"], shell=options.shell)
    output.line(code)
    output.document({"shell": options.shell, "code": code})
    return 0
