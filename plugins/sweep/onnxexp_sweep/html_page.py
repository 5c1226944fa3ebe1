"""Write the results of a sweep, or a comparison, as a self-contained HTML page.

`page/page.html` is its template.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from onnxexp.commands import OutputFile
from onnxexp_sweep.compare import Comparison
from onnxexp_sweep.versions import PACKAGES

_COLUMNS = (
    "model", "opset", "frontend", "variant", "status", "export_seconds", "seconds", "peak_bytes", "nodes", "file_bytes",
    "max_error", "reason", "stderr", "warnings", "verified", "not_verified", "options", "stages", "versions", "worker",
    "finished",
)  # fmt: skip

_Row = Mapping[str, Any]


def write(path: Path, title: str, rows: Sequence[Mapping[str, Any]], comparison: Comparison | None = None) -> None:
    """Write the page; an older file stays until the new one is complete.

    Raises SerializeError.
    """
    OutputFile(path).write(page(title, rows, comparison))


def page(title: str, rows: Sequence[_Row], comparison: Comparison | None = None) -> str:
    """Return the page of some rows of results, and of a comparison with earlier ones."""
    files = resources.files("onnxexp_sweep") / "page"
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.from_string((files / "page.html").read_text("utf-8")).render(
        title=title,
        style=(files / "page.css").read_text("utf-8"),
        script=(files / "page.js").read_text("utf-8"),
        versions=_versions(rows),
        counts=collections.Counter(row["status"] for row in rows).most_common(),
        comparison=comparison,
        status=_status_map(rows),
        plots=[
            ("Time of the export, the slowest models", *_number_plot(rows, "export_seconds", lambda value: f"{value:g} s")),
            (
                "Peak memory of a cell, the largest models",
                *_number_plot(rows, "peak_bytes", lambda value: f"{value / 1e6:,g} MB"),
            ),
        ],
        columns=_COLUMNS,
        cells=[[_value(row, name) for name in _COLUMNS] for row in rows],
    )


def _versions(rows: Sequence[Mapping[str, Any]]) -> str:
    versions = {name: sorted({row[name.replace("-", "_")] or "" for row in rows}) for name in PACKAGES}
    return ", ".join(f"{name} {' or '.join(numbers)}" for name, numbers in versions.items() if numbers)


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


def _status_map(rows: Sequence[_Row]) -> tuple[list[str], list[tuple[int, str, str]], list[tuple[_Row, int, int, str]]]:
    """Return the models, the options, and each cell with its column, line and title."""
    lines = {model: index for index, model in enumerate(dict.fromkeys(row["model"] for row in rows))}
    columns = {options: index for index, options in enumerate(sorted({_options(row) for row in rows}))}
    squares = []
    for row in rows:
        first = (row["reason"] or "").partition("\n")[0]
        title = f"{row['cell']}: {row['status']}" + (f": {first}" if first else "")
        squares.append((row, columns[_options(row)], lines[row["model"]], title))
    return list(lines), list(columns), squares


def _options(row: _Row) -> tuple[int, str, str]:
    return row["opset"], row["frontend"], row["variant"] or ""


_Dots = list[tuple[str, float]]
"""Texts with their places on a logarithmic axis, from 0 to 1."""


def _number_plot(
    rows: Sequence[_Row], column: str, text: Callable[[float], str], most: int = 40
) -> tuple[_Dots, list[tuple[str, _Dots]]]:
    """Return the powers of ten on the axis, and the models' cells, the largest first.

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
        return [], []
    largest = sorted(found, key=lambda model: -max(row[column] for row in found[model]))[:most]
    values = [row[column] for model in largest for row in found[model]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def place(value: float) -> float:
        return (math.log10(value) - low) / max(high - low, 1)

    powers = [(text(10.0**power), place(10.0**power)) for power in range(low, high + 1)]
    return powers, [
        (model, [(f"{row['cell']}: {text(row[column])}", place(row[column])) for row in found[model]]) for model in largest
    ]
