"""The documentation builds without a warning and covers everything public."""

from __future__ import annotations

import ast
import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onnxexp
import onnxexp_transformers
from docs_tools import hook
from onnxexp import _cli as cli
from onnxexp import _errors as errors
from onnxexp._request import config
from tests.core.api import DOORS
from tests.report.browser import CHROMIUM, needs_browser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
API = "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "reference" / "api").glob("*.md")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with warnings as errors: dead links, unlisted pages, bad names."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def anchors(page: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page.read_text("utf-8")))


def test_the_site_has_every_public_name(site: Path) -> None:
    pages = [*(site / "reference" / "api").glob("*.html"), site / "reference" / "errors.html"]
    api = set().union(*map(anchors, pages))
    names = [f"{door}.{name}" for door in DOORS for name in importlib.import_module(door).__all__]
    assert [name for name in names if name not in api] == []
    for name in onnxexp_transformers.__all__:  # `plugin` has the name of its module
        assert api & {f"onnxexp_transformers.{name}", f"onnxexp_transformers.{name}.{name}"}, name


def test_nothing_is_left_to_generate(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "<!-- generated:" not in page.read_text("utf-8"), page


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//')
    for page in site.rglob("*.html"):
        assert not loading.search(page.read_text("utf-8")), page


def test_the_page_of_settings_says_what_each_takes(site: Path) -> None:
    """Markdown changes braces and angle brackets in a table."""
    page = html.unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "configuration.html").read_text("utf-8")))
    for key in config.KEYS:
        assert key.expected in page, key.name


def test_every_public_name_is_asked_for() -> None:
    """The check needs no build, so it also runs where mkdocs is not installed."""
    directives = set(re.findall(r"^::: onnxexp\.(\w+)", API, re.MULTILINE))
    assert {*onnxexp.__all__} - {*errors.__all__} <= directives


def test_every_generated_part_is_on_a_page_and_exists() -> None:
    marker = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
    used = [name for page in DOCS.rglob("*.md") for name in marker.findall(page.read_text("utf-8"))]
    assert sorted(used) == sorted(hook.PARTS)
    with pytest.raises(KeyError):
        hook.fill("<!-- generated: no-such-part -->")


@pytest.mark.parametrize("name", hook.hooks())
def test_every_hook_is_documented(name: str) -> None:
    sections = hook.hook_sections(hook.hooks()[name])
    assert list(sections) == ["", *hook.SECTIONS]
    assert all(sections.values())
    page = hook.PARTS["hooks"]()
    assert f"## {name}\n" in page
    _, _, example = sections["Example"].partition("::\n")
    ast.parse(hook.unindented(example))
    assert "@onnxexp.hookimpl" in example and f"def {name}(" in example


def test_every_setting_has_a_row_and_a_variable() -> None:
    settings, variables = hook.PARTS["settings"](), hook.PARTS["variables"]()
    for key in config.KEYS:
        assert settings.count(f"| `{key.name}` |") == 1
        assert f"| `ONNXEXP_{key.name.upper()}` | `{key.name}` |" in variables


def test_variables_are_read_as_the_page_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONNXEXP_PREFER", "aten::gelu=my-pack, aten::erf=other")
    monkeypatch.setenv("ONNXEXP_DISABLE", "one , two")
    for text, value in [("on", True), ("1", True), ("no", False), ("", False)]:
        monkeypatch.setenv("ONNXEXP_DEBUG", text)
        assert config.load().debug is value
    assert config.load().prefer == {"aten::gelu": "my-pack", "aten::erf": "other"}
    assert config.load().disable == ("one", "two")


def test_every_command_and_argument_is_on_the_page() -> None:
    page = hook.PARTS["commands"]()
    parsers = hook.parsers()
    assert {name.split()[1] for name in parsers} == {*cli.COMMANDS}
    assert "onnxexp plugins why" in parsers
    for name, parser in parsers.items():
        _, _, section = page.partition(f"## {name}\n")
        section = section.partition("\n## ")[0]
        for action in parser._actions:
            for flag in action.option_strings if action.dest not in hook.EVERYWHERE else ():
                assert f"`{flag}" in section, (name, flag)


def test_every_error_is_on_the_page() -> None:
    tree, classes = hook.PARTS["error-tree"](), hook.PARTS["error-classes"]()
    for name in errors.__all__:
        assert re.search(rf"\b{name}\b", tree), name
        assert f"::: onnxexp.{name}\n" in classes


def test_the_tree_of_errors_is_as_drawn() -> None:
    """Each class stands below its base, one level deeper."""
    drawn: list[tuple[int, str]] = []
    for line in hook.PARTS["error-tree"]().splitlines():
        match = re.match(r"([ │├└─]*)(\w+)", line)
        if match and match[2] in errors.__all__:
            drawn.append((len(match[1]), match[2]))
    for number, (depth, name) in enumerate(drawn[1:], 1):
        base = next(other for level, other in reversed(drawn[:number]) if level < depth)
        assert vars(errors)[base] in vars(errors)[name].__bases__, (name, base)


def test_the_naming_rule_is_found() -> None:
    rule = hook.PARTS["naming-rule"]()
    assert rule.startswith("- An input has the name of the parameter") and rule.count("\n- ") >= 3


@needs_browser
def test_search_from_disk(site: Path) -> None:
    """A browser starts no worker for a page from a file."""
    from playwright.sync_api import sync_playwright

    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "how-to" / "install.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("custom_opsets")
        page.locator(".md-search-result__link").first.wait_for(timeout=20_000)
        found = page.locator(".md-search-result__link").evaluate_all("(links) => links.map((link) => link.href)")
        browser.close()
    assert not errors
    assert any("custom-cpp-operators.html" in link for link in found), found
