"""Tables for notebooks, as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def notebook_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: str = "") -> str:
    """Return a table with a title, and notes in lines below it."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    below = f"<pre>{html.escape(notes)}</pre>" if notes else ""
    return (
        f"<table><caption style='text-align: left'>{html.escape(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}"
    )
