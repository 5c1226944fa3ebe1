"""The results, or a comparison, as a page: one file without any other."""

from __future__ import annotations

import collections
import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from onnxexp.commands import OutputFile
from onnxexp_sweep.compare import Comparison
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
    found = {name: sorted({row[name.replace("-", "_")] or "" for row in rows}) for name in PACKAGES}
    return ", ".join(f"{name} {' or '.join(numbers)}" for name, numbers in found.items() if numbers)


def _changes(comparison: Comparison) -> str:
    parts = [f"<p>{html.escape(line)}</p>" for line in comparison.versions]
    for kind, changes in comparison.changes.items():
        if changes:
            lines = "".join(
                f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in (each.cell, each.before, each.after))}</tr>"
                for each in changes
            )
            head = "<tr><th>cell</th><th>before</th><th>now</th></tr>"
            parts.append(f"<h2>{html.escape(kind)}: {len(changes)}</h2><table>{head}{lines}</table>")
    return "".join(parts) + f'<p class="soft">{comparison.same} cells are unchanged.</p>'


def _data(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as JSON that cannot end its element."""
    lines = [[_value(row, name) for name in _COLUMNS] for row in rows]
    text = json.dumps({"columns": _COLUMNS, "rows": lines}, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _value(row: Mapping[str, Any], name: str) -> Any:
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


_LABEL, _SQUARE, _PLOT, _LINE = 240, 16, 700, 18
_LONGEST = 36
_HEAD = 96

_Row = Mapping[str, Any]


def status_map(rows: Sequence[_Row]) -> str:
    """Draw a square for each cell: models are lines, the options are columns."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    columns = sorted({_options(row) for row in rows})
    across = {options: _LABEL + _SQUARE * index for index, options in enumerate(columns)}
    down = {model: _HEAD + _SQUARE * index for index, model in enumerate(models)}
    parts = []
    for options, x in across.items():
        text = _label(" ".join(map(str, options)).strip())
        parts.append(f'<text transform="translate({x + 12},{_HEAD - 6}) rotate(-60)" class="soft">{text}</text>')
    parts += [f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{_label(model)}</text>' for model, y in down.items()]
    for row in rows:
        x, y = across[_options(row)], down[row["model"]]
        first = (row["reason"] or "").partition("\n")[0]
        title = html.escape(f"{row['cell']}: {row['status']}" + (f": {first}" if first else ""))
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_SQUARE - 2}" height="{_SQUARE - 2}" rx="3" class="{html.escape(row["status"])}" '
            f'data-model="{html.escape(row["model"])}"><title>{title}</title></rect>'
        )
    return _svg(_LABEL + _SQUARE * len(columns) + 60, _HEAD + _SQUARE * len(models) + 4, parts)


def number_plot(rows: Sequence[_Row], column: str, text: Callable[[float], str], most: int = 40) -> str:
    """Draw a dot for each cell on a logarithmic axis; "" without numbers.

    Models are lines, the largest first.

    Args:
        rows: The cells.
        column: The number to draw.
        text: Writes such a number.
        most: The number of models to draw.
    """
    found: dict[str, list[_Row]] = {}
    for row in rows:
        if row["status"] == "ok" and row[column]:
            found.setdefault(row["model"], []).append(row)
    if not found:
        return ""
    largest = sorted(found, key=lambda model: -max(row[column] for row in found[model]))[:most]
    values = [row[column] for model in largest for row in found[model]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = _PLOT / max(high - low, 1)
    bottom = 24 + _LINE * len(largest)
    parts = []
    for power in range(low, high + 1):
        x = _LABEL + scale * (power - low)
        parts.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="14" text-anchor="middle" class="soft">{html.escape(text(10.0**power))}</text>')
    for index, model in enumerate(largest):
        y = 32 + _LINE * index
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 4}" text-anchor="end">{_label(model)}</text>')
        for row in found[model]:
            x = _LABEL + scale * (math.log10(row[column]) - low)
            title = html.escape(f"{row['cell']}: {text(row[column])}")
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="4"><title>{title}</title></circle>')
    return _svg(_LABEL + _PLOT + 60, bottom + 8, parts)


def _options(row: _Row) -> tuple[int, str, str]:
    return row["opset"], row["frontend"], row["variant"] or ""


def _label(text: str) -> str:
    return html.escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}">' + "".join(parts) + "</svg>"
