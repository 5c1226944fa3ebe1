"""The code of the documentation runs, and prints the documented output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks, run

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("plugins/*/README.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path)


def page_of(folder: Path, markdown: str) -> Path:
    page = folder / "sample.md"
    page.write_text(markdown, "utf-8")
    return page


@pytest.mark.parametrize(
    ("markdown", "told"),
    [
        ("```python\n1 / 0\n```", "sample.md:2: the block raises ZeroDivisionError"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "sample.md:2: the page shows\n2\n\nthe block prints\n1"),
        (
            "```python\n1 / 0\n```\n\n```text\nZeroDivisionError: by ten\n```",
            "the block prints\nZeroDivisionError: division by zero",
        ),
        ("```python\n1\n```\n\n```text\nTypeError: ...\n```", "the page shows\nTypeError: ...\n\nthe block prints\n"),
        ("```python\nx = 1\n```\nIt prints:\n```\n1\n```", "the block prints"),
        ("```toml\nx = \n```", "sample.md:2: not TOML"),
        ("```console\n$ onnxexp no-such-command\n```", "is not a command"),
        ("```console\n$ pip install x\n$ onnxexp plugins\nno output like this\n```", "the page shows"),
    ],
)
def test_what_is_wrong_is_told(markdown: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        run(page_of(tmp_path, markdown), tmp_path)
    assert told in str(raised.value)


def test_wrong_settings_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="opset is 'new'"):
        run(page_of(tmp_path, '```toml\n[tool.onnxexp]\nopset = "new"\n```'), tmp_path)


def test_what_is_right_passes(tmp_path: Path) -> None:
    markdown = (
        "```python title='no title, for the quotes'\nx = 1\n```\n"
        '```python title="own_module.py"\nVALUE = 2\n```\n'
        "```python\nfrom own_module import VALUE\nprint(x + VALUE, object())\n```\n"
        "```text\n3 <object object at ...>\n```\n"
        "```python\n1 / 0\n```\n```text\nZeroDivisionError: division by ...\n```\n"
        "1. ```toml\n   [tool.onnxexp]\n   opset = 18\n   ```\n"
        "```console\n$ pip install nothing\n$ ONNXEXP_OPSET=18 onnxexp plugins\n```\n"
    )
    run(page_of(tmp_path, markdown), tmp_path)


def test_blocks_are_found_where_they_are() -> None:
    found = blocks('a\n```python title="x.py"\n1\n```\n- item\n\n    ```toml\n    a = 1\n    ```\n')
    assert [(block.language, block.title, block.text, block.line) for block in found] == [
        ("python", "x.py", "1\n", 3),
        ("toml", "", "a = 1\n", 8),
    ]
    with pytest.raises(ValueError, match="line 1 does not end"):
        blocks("```python\n1\n")
