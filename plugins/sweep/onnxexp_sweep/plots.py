"""The plots of the page, as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
