"""Escape characters that end a line or control a terminal.

The names in a model, a folder or a program file are any text. In a report, a page or a script they must not look like another
part of it.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """Escape ends of lines, controls, directions of writing and surrogates."""
    return text if text.isprintable() else _escaped(text, "")


def printable(text: str) -> str:
    """Escape the characters of `one_line`, except new lines and tabs."""
    return text if text.isprintable() else _escaped(text, "\n\t")


def _escaped(text: str, kept: str) -> str:
    return "".join(each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text)
