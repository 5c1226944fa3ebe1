"""A headless Chromium: the pages of the tests are opened in a real browser."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: `apt-get install chromium`")


@contextlib.contextmanager
def opened(path: Path, *, width: int = 1280, height: int = 800, scheme: str = "light") -> Iterator[Any]:
    """Open a page and wait until it is ready; fail if its console shows an error."""
    from playwright.sync_api import sync_playwright

    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=20_000)
        yield page
        browser.close()
    assert not errors


def view(page: Any, kind: str, expression: str) -> Any:
    """Evaluate an expression of a graph's view, which it names `view`."""
    return page.evaluate(
        f"(() => {{ const view = document.querySelector('.tab.graph').views['{kind}']; return {expression}; }})()"
    )


def settled(page: Any) -> None:
    """Wait until everything is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))")


def colour_at(page: Any, kind: str, label: str) -> str:
    """Read the colour of a node's box on the canvas, near its left edge."""
    script = f"""(() => {{
        const view = document.querySelector('.tab.graph').views['{kind}'];
        const [item, place] = [...view.places].find(([item]) => item === view.selected || item.label === '{label}');
        const [x, y] = view.transform.apply([place.x + 8, place.y + place.height / 2]);
        const ratio = window.devicePixelRatio || 1;
        const data = view.canvas.getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data;
        return [...data].slice(0, 3).join(',');
    }})()"""
    return str(page.evaluate(script))
