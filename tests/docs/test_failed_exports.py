"""`docs/how-to/my-export-failed.md` has every message without a fix of its own.

The page also has each error class. `test_code_blocks.py` runs its programs and compares their messages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from onnxexp import _errors as errors
from tests.docs.blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "my-export-failed.md"
TEXT = " ".join(PAGE.read_text("utf-8").split())
CLASSES = {*errors.__all__, "CaptureRefused", "CheckerError", "SymbolicValueError"}
RAISING = {"refuse", "_refuse", "error"}
"""Functions that raise or make an error; a second argument is the fix."""
WARNING = {"warn"}
_FIX = re.compile(
    r"to fix this|give |choose|expected|write |there are|may be|pip install|leave|export again|keep |call |reinstall|must be"
    r"|uninstall|lift|load the|skip_passes|op\.cast|end args|can express|it takes",
    re.IGNORECASE,
)


class Message(NamedTuple):
    """An error or a warning of the sources, with its text between the values."""

    place: str
    text: str
    pieces: list[str]


def literal(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return [value.value for value in node.values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return [*literal(node.left), *literal(node.right)] if isinstance(node, ast.BinOp) else []


def messages(source: str, place: str) -> Iterator[Message]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            pieces = literal(node.args[0])
            with_fix = name in RAISING and len(node.args) > 1
            if name in CLASSES | RAISING | WARNING and pieces and not with_fix:
                yield Message(f"{place}:{node.lineno}", " ... ".join(pieces), pieces)


def quoted(message: Message, page: str) -> bool:
    """Return whether the page has a message's longest piece, or quotes a part of it.

    A quote has the form ``a ... b``.
    """
    if " ".join(max(message.pieces, key=len).strip(" \n.,:;()").split()) in page:
        return True
    quotes = [re.split(r"\s*\.\.\.\s*", quote.strip(" .:;")) for quote in re.findall(r"`([^`]+)`", re.sub("```.*?```", "", page))]
    patterns = [".*".join(map(re.escape, parts)) for parts in quotes if max(map(len, parts)) >= 8]
    return any(re.search(pattern, message.text) for pattern in patterns)


def missing(source: str, place: str, page: str) -> list[str]:
    """List the messages that have no fix and are not on the page."""
    found = messages(source, place)
    return [f"{each.place}: {each.text}" for each in found if not _FIX.search(each.text) and not quoted(each, page)]


def test_every_message_has_a_fix() -> None:
    """A message without a fix of its own is on the page, in a program or in a table."""
    files = [*ROOT.glob("core/onnxexp/**/*.py"), *ROOT.glob("plugins/*/onnxexp_*/**/*.py")]
    assert len(files) > 200
    assert [line for file in files for line in missing(file.read_text("utf-8"), str(file.relative_to(ROOT)), TEXT)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("raise LoweringError(f'the colour {x} is unheard of')", ["x.py:1: the colour  ...  is unheard of"]),
        ("raise LoweringError(f'the colour {x} is unheard of; to fix this, paint it')", []),
        ("raise op.error('the colour' + ' is odd')", ["x.py:1: the colour ...  is odd"]),
        ("warn('the colour is odd')", ["x.py:1: the colour is odd"]),
        ("raise OptionError('known words')", []),
        ("raise OptionError(f'{x} is odd in {y}, and green')", []),
        ("refuse('the colour is odd', 'use another')", []),
        ("raise ValueError('of somebody else')", []),
    ],
)
def test_a_message_without_a_fix_is_found(source: str, found: list[str]) -> None:
    assert missing(source, "x.py", "it says: known words, `... is odd in ...`") == found


def test_every_class_has_a_program() -> None:
    raised = {block.text.partition(":")[0] for block in blocks(PAGE.read_text("utf-8")) if block.language == "text"}
    assert set(errors.__all__) <= raised


def test_the_readme_leads_to_it() -> None:
    assert "](docs/how-to/my-export-failed.md)" in (ROOT / "README.md").read_text("utf-8")
