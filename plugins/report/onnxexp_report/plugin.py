"""The plugin object: the hook `write_report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxexp import ONNXProgram, hookimpl


class ReportPage:
    """Write reports as HTML pages.

    Paths with another ending than .html are left to other plugins.
    """

    name = "report"

    @hookimpl
    def write_report(
        self, program: ONNXProgram, path: Path, mismatch: Any, profile: bool, warnings: Sequence[str], problems: Sequence[str]
    ) -> bool | None:
        if path.suffix.lower() not in (".html", ".htm"):
            return None
        from onnxexp_report.document import document
        from onnxexp_report.operator_times import measure_operator_times
        from onnxexp_report.page import write_page

        times = measure_operator_times(program) if profile else None
        write_page(document(program, mismatch=mismatch, profile=times, warnings=warnings, problems=problems), path)
        return True


plugin = ReportPage()
