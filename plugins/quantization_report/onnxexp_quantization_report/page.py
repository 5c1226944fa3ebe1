"""The report as a page with bar charts.

The page is one file without scripts or external resources; `page.html` is its template.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import jinja2

from onnxexp.commands import OutputFile
from onnxexp_quantization_report.layers import STATES, Layer
from onnxexp_quantization_report.report import Report

_LONGEST_LABEL = 38


@dataclasses.dataclass(frozen=True)
class _Bar:
    """A bar of a chart, with a length from 0 to 1."""

    name: str
    length: float
    value: str
    colour: str
    title: str

    @property
    def label(self) -> str:
        return self.name if len(self.name) <= _LONGEST_LABEL else "…" + self.name[1 - _LONGEST_LABEL :]


@dataclasses.dataclass(frozen=True)
class _Chart:
    title: str
    note: str
    bars: list[_Bar]


def write(report: Report, path: Path) -> Path:
    """Write the page to a file.

    An older file stays as it is until the new one is complete.

    Raises SerializeError where the file cannot be written.
    """
    OutputFile(path).write(page(report))
    return path


def page(report: Report) -> str:
    """Return the page as text."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((resources.files("onnxexp_quantization_report") / "page.html").read_text("utf-8"))
    counts = {state: sum(layer.state == state for layer in report.layers) for state in STATES}
    title = f"Quantization report: {Path(report.file).name}"
    return template.render(
        title=title, report=report, meanings=STATES, counts=counts, charts=list(_charts(report)), colour=_colour
    )


def _charts(report: Report) -> Iterator[_Chart]:
    timed = [(layer, layer.seconds) for layer in report.layers if layer.seconds is not None]
    if timed:
        longest = max(seconds for _, seconds in timed) or 1
        yield _Chart("Time by layer", "", [_bar(each, value / longest, f"{1e6 * value:.0f} µs") for each, value in timed])
    compared = [(layer, layer.sqnr) for layer in report.layers if layer.sqnr is not None]
    if compared:
        best = max(1.0, *(ratio for _, ratio in compared))
        note = f"Signal to quantization noise against {report.against}: longer is better."
        yield _Chart("Accuracy by layer", note, [_bar(each, value / best, f"{value:.1f} dB") for each, value in compared])
    if report.operators:
        most, total = max(report.operators.values()) or 1, report.seconds or 1
        shares = [(name, value / most, f"{100 * value / total:.1f} %") for name, value in report.operators.items()]
        yield _Chart("Time by operator of the optimized graph", "", [_Bar(*each, "plain", each[0]) for each in shares])


def _bar(layer: Layer, length: float, value: str) -> _Bar:
    why = f" ({layer.reason})" if layer.reason else ""
    title = f"{layer.name}: {layer.operator} ran as {layer.ran_as or '?'}{why}"
    return _Bar(layer.name, min(1.0, max(0.0, length)), value, _colour(layer.state), title)


def _colour(state: str) -> str:
    """Return the variable of the page's style for a state."""
    return state.replace(" ", "-")
