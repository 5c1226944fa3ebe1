"""The stages of an export, told as they begin: a plugin like any other, which only watches."""

from __future__ import annotations

from onnxexp.cli.console_output import Progress
from onnxexp.graph import Node
from onnxexp.plugins.hookspecs import hookimpl

__all__ = ["Stages"]

_STEP = 50
"""Nodes between two updates."""


class Stages:
    """Watches one export. Its hooks give nothing, so it takes no part and is not named in the file."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._nodes = 0

    @hookimpl
    def capture_context(self) -> None:
        """The capture begins."""
        self._progress.stage("capturing the model")

    @hookimpl
    def lower_node(self, node: Node) -> None:
        """Another node."""
        if self._nodes % _STEP == 0:
            self._progress.stage(f"lowering {node.op} ({self._nodes} done)")
        self._nodes += 1
