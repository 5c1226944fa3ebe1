"""A plugin that shows the progress of an export."""

from __future__ import annotations

from onnxexp._cli.text_or_json import Progress
from onnxexp._neutral_graph import Node
from onnxexp._plugins.hookspecs import hookimpl

_STEP = 50
"""Nodes between two updates."""


class Stages:
    """A plugin that shows the stages of one export.

    All hooks return None, so the exported file does not list this plugin.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._nodes = 0

    @hookimpl
    def capture_context(self) -> None:
        """Show the beginning of the capture."""
        self._progress.stage("capturing the model")

    @hookimpl
    def lower_node(self, node: Node) -> None:
        """Show the number of lowered nodes."""
        if self._nodes % _STEP == 0:
            self._progress.stage(f"lowering {node.op} ({self._nodes} done)")
        self._nodes += 1
