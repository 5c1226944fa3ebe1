"""Write a page about an exported model: its graph, weights, times and errors.

onnxexp.export(model, (x,)).report("report.html", mismatch=True)
"""

from __future__ import annotations

from onnxexp_report.plugin import plugin

__all__ = ["plugin"]
