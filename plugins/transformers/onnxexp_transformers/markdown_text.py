"""Any text as a part of a Markdown page.

A name comes from a folder or from a checkpoint. It must not begin another line, table cell, element or block.
"""

from __future__ import annotations

import re

from onnxexp.commands import one_line

_SPECIAL = re.compile(r"([\\`*_\[\]#<>&|$~])")


def plain(text: str) -> str:
    """Return the text for a heading or a paragraph, without markup."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def code(text: str) -> str:
    """Return the text as inline code, in a table too."""
    line = one_line(text).replace("|", r"\|") or " "
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def fenced(text: str, language: str) -> str:
    """Return the text as a block of code."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
