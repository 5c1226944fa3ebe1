"""A horizontal bar chart as SVG."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence

_WIDTH, _LABELS, _VALUES = 920, 260, 90
"""The width of the chart, and those of its labels on the left and of its values on the right."""

_STEP, _THICK = 24, 14
"""The distance of two bars, and the thickness of one."""

_LONGEST_LABEL = 38


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar.

    Attributes:
        label: The text on its left.
        length: Its length, from 0 to 1.
        value: The text on its right.
        colour: The name of a variable of the page's style.
        title: What a pointer over it shows.
    """

    label: str
    length: float
    value: str
    colour: str
    title: str


def chart(bars: Sequence[Bar]) -> str:
    """Draw bars below each other."""
    height = _STEP * len(bars) + 4
    rows = "\n".join(_row(bar, 2 + _STEP * number) for number, bar in enumerate(bars))
    axis = f'<line class="axis" x1="{_LABELS}" y1="0" x2="{_LABELS}" y2="{height}"/>'
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="bar chart">\n{axis}\n{rows}\n</svg>'


def _row(bar: Bar, top: int) -> str:
    length = max(1.0, (_WIDTH - _LABELS - _VALUES) * min(1.0, max(0.0, bar.length)))
    label = bar.label if len(bar.label) <= _LONGEST_LABEL else "…" + bar.label[1 - _LONGEST_LABEL :]
    middle = top + _STEP // 2
    return (
        f"<g><title>{html.escape(bar.title)}</title>"
        f'<text x="{_LABELS - 10}" y="{middle + 4}" text-anchor="end">{html.escape(label)}</text>'
        f'<rect x="{_LABELS}" y="{middle - _THICK // 2}" width="{length:.1f}" height="{_THICK}" rx="3" '
        f'style="fill: var(--{bar.colour})"/>'
        f'<text class="value" x="{_LABELS + length + 8:.1f}" y="{middle + 4}">{html.escape(bar.value)}</text></g>'
    )
