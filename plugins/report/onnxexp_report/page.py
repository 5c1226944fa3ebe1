"""Write the report: one HTML file with its style, its script and its document."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from onnxexp.commands import OutputFile

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="onnxexp">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"><p class="loading">Reading the model&hellip;</p></div>
<script id="document" type="application/octet-stream">{document}</script>
<script>{script}</script>
</body>
</html>
"""


def write_page(document: Mapping[str, Any], path: Path) -> None:
    """Write a document as a page, in one step.

    The document is compressed and encoded as base64, which cannot contain the end tag of its element.

    Raises SerializeError where the file cannot be written; an earlier one is then unharmed.
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    data = text.encode("utf-8", "backslashreplace")  # JSON reads an escaped surrogate as what it was
    packed = base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")
    page = _PAGE.format(title=html.escape(document["title"]), style=_asset("page.css"), script=_asset("page.js"), document=packed)
    OutputFile(path).write(page)


def _asset(name: str) -> str:
    """Read a file of the bundle, and escape the end tags in it.

    An end tag inside the file would end the element of the page.
    """
    text = (resources.files("onnxexp_report") / "assets" / name).read_text("utf-8")
    return text.replace("</script", "<\\/script").replace("</style", "<\\/style")
