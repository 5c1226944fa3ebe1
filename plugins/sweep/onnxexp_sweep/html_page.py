"""Write the results of a sweep, or a comparison, as a self-contained HTML page."""

from __future__ import annotations

import collections
import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from onnxexp.commands import OutputFile
from onnxexp_sweep.compare import Comparison
from onnxexp_sweep.plots import number_plot, status_map
from onnxexp_sweep.versions import PACKAGES

_COLUMNS = (
    "model", "opset", "frontend", "variant", "status", "export_seconds", "seconds", "peak_bytes", "nodes", "file_bytes",
    "max_error", "reason", "stderr", "warnings", "verified", "not_verified", "options", "stages", "versions", "worker",
    "finished",
)  # fmt: skip


def write(path: Path, title: str, rows: Sequence[Mapping[str, Any]], comparison: Comparison | None = None) -> None:
    """Write the page; an older file stays until the new one is complete.

    Raises SerializeError.
    """
    OutputFile(path).write(page(title, rows, comparison))


def page(title: str, rows: Sequence[Mapping[str, Any]], comparison: Comparison | None = None) -> str:
    """Return the page of some rows of results, and of a comparison with earlier ones."""
    heading = html.escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{_asset('page.css')}</style>\n</head>\n<body>\n<main>\n<h1>{heading}</h1>\n"
        + "\n".join(_sections(rows, comparison))
        + f'\n</main>\n<script id="rows" type="application/json">{_data(rows)}</script>\n<script>{_asset("page.js")}</script>\n'
        "</body>\n</html>\n"
    )


def _sections(rows: Sequence[Mapping[str, Any]], comparison: Comparison | None) -> Iterator[str]:
    yield f'<p class="soft">{html.escape(_versions(rows))}</p>'
    yield _card("", _counts(rows))
    if comparison is not None:
        yield _card("What changed", _changes(comparison))
    if rows:
        yield _card("Cells", status_map(rows))
    for heading, column, text in (
        ("Time of the export, the slowest models", "export_seconds", lambda value: f"{value:g} s"),
        ("Peak memory of a cell, the largest models", "peak_bytes", lambda value: f"{value / 1e6:,g} MB"),
    ):
        drawn = number_plot(rows, column, text)
        if drawn:
            yield _card(heading, drawn)
    yield '<section class="card" id="cells"><h2>All cells</h2></section>'


def _card(title: str, content: str) -> str:
    heading = f"<h2>{html.escape(title)}</h2>\n" if title else ""
    return f'<section class="card">\n{heading}{content}\n</section>'


def _counts(rows: Sequence[Mapping[str, Any]]) -> str:
    counts = collections.Counter(row["status"] for row in rows)
    parts = [
        f'<div><b>{number}</b><span class="key {html.escape(status)}"></span>{html.escape(status)}</div>'
        for status, number in counts.most_common()
    ]
    return f'<div class="counts">{"".join(parts) or "no cells"}</div>'


def _versions(rows: Sequence[Mapping[str, Any]]) -> str:
    versions = {name: sorted({row[name.replace("-", "_")] or "" for row in rows}) for name in PACKAGES}
    return ", ".join(f"{name} {' or '.join(numbers)}" for name, numbers in versions.items() if numbers)


def _changes(comparison: Comparison) -> str:
    parts = [f"<p>{html.escape(line)}</p>" for line in comparison.versions]
    for kind, changes in comparison.changes.items():
        if changes:
            rows = "".join(_table_row(change.cell, change.before, change.after) for change in changes)
            head = "<tr><th>cell</th><th>before</th><th>now</th></tr>"
            parts.append(f"<h2>{html.escape(kind)}: {len(changes)}</h2><table>{head}{rows}</table>")
    return "".join(parts) + f'<p class="soft">{comparison.same} cells are unchanged.</p>'


def _table_row(*texts: str) -> str:
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
    return f"<tr>{cells}</tr>"


def _data(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as JSON that contains no end tag."""
    values = [[_value(row, name) for name in _COLUMNS] for row in rows]
    text = json.dumps({"columns": _COLUMNS, "rows": values}, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _value(row: Mapping[str, Any], name: str) -> Any:
    """Return a row's value in a column, in types of JSON."""
    if name == "versions":
        return [f"{each} {row[each.replace('-', '_')]}" for each in PACKAGES] + _pairs(row["plugins"])
    if name in ("options", "stages"):
        return _pairs(row[name])
    value = row[name]
    if name == "finished":
        return value.isoformat(" ", "seconds") if value is not None else ""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return "" if name == "variant" and value is None else value


def _pairs(pairs: Sequence[tuple[str, Any]] | None) -> list[str]:
    return [f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in pairs or ()]


def _asset(name: str) -> str:
    return (resources.files("onnxexp_sweep") / "page" / name).read_text("utf-8")
