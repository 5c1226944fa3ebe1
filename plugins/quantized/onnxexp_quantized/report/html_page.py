"""The report as a page with bar charts.

The page is one file without scripts or external resources.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from onnxexp.commands import OutputFile
from onnxexp_quantized.report.bar_chart import Bar, chart
from onnxexp_quantized.report.layers import STATES, Layer
from onnxexp_quantized.report.report import Report

_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1f2328; --soft: #667079; --line: #e3e5e8;
  --integer: #2f6fb5; --float: #d9622b; --not-quantized: #a9b0b7; --unknown: #cfd4d9; --plain: #5b8a72; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --card: #1d2126; --ink: #e4e7ea; --soft: #98a2ab; --line: #31373e;
  --integer: #6ba4e0; --float: #f08a55; --not-quantized: #69727b; --unknown: #454c54; --plain: #7fb598; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 12px; } p { margin: 0 0 8px; }
.soft { color: var(--soft); } .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 20px; margin-top: 18px; overflow-x: auto; }
.counts { display: flex; flex-wrap: wrap; gap: 28px; } .counts b { display: block; font-size: 26px; line-height: 1.2; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
svg { display: block; width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .value { fill: var(--soft); } svg .axis { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; } td, th { padding: 5px 14px 5px 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
dt { font-weight: 600; } dd { margin: 0 0 10px; }
"""


def write(report: Report, path: Path) -> Path:
    """Write the page to a file.

    An older file stays as it is until the new one is complete.

    Raises SerializeError where the file cannot be written.
    """
    OutputFile(path).write(page(report))
    return path


def page(report: Report) -> str:
    """Return the page as text."""
    title = html.escape(f"Quantization report: {Path(report.file).name}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        + "\n".join(_sections(report))
        + "\n</main>\n</body>\n</html>\n"
    )


def _sections(report: Report) -> Iterator[str]:
    shapes = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in report.shapes.items())
    yield f'<p class="soft">ONNX Runtime {html.escape(report.onnxruntime)}, CPU. Inputs: {html.escape(shapes) or "none"}.</p>'
    yield _card("", _counts(report))
    timed = [(layer, layer.seconds) for layer in report.layers if layer.seconds is not None]
    if timed:
        longest = max(seconds for _, seconds in timed) or 1
        bars = [Bar(each.name, value / longest, f"{1e6 * value:.0f} µs", _colour(each), _title(each)) for each, value in timed]
        yield _card("Time by layer", chart(bars))
    compared = [(layer, layer.sqnr) for layer in report.layers if layer.sqnr is not None]
    if compared:
        best = max(1.0, *(ratio for _, ratio in compared))
        bars = [Bar(each.name, value / best, f"{value:.1f} dB", _colour(each), _title(each)) for each, value in compared]
        text = f"Signal to quantization noise against {html.escape(report.against)}: longer is better."
        yield _card("Accuracy by layer", f'<p class="soft">{text}</p>{chart(bars)}')
    if report.operators:
        most = max(report.operators.values()) or 1
        bars = [
            Bar(name, value / most, f"{100 * value / (report.seconds or 1):.1f} %", "plain", name)
            for name, value in report.operators.items()
        ]
        yield _card("Time by operator of the optimized graph", chart(bars))
    if report.fallen_back:
        yield _card("What to change", _fixes(report))
    yield _card("All layers", _table(report))


def _card(title: str, content: str) -> str:
    heading = f"<h2>{title}</h2>\n" if title else ""
    return f'<section class="card">\n{heading}{content}\n</section>'


def _counts(report: Report) -> str:
    parts = []
    for state, meaning in STATES.items():
        number = sum(layer.state == state for layer in report.layers)
        if number:
            key = f'<span class="key" style="background: var(--{state.replace(" ", "-")})"></span>'
            parts.append(f"<div><b>{number}</b>{key}{html.escape(meaning)}</div>")
    parts.append(f'<div><b>{1e3 * report.seconds:.3f} ms</b><span class="soft">in the nodes of a run</span></div>')
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in report.comparison.lines()) if report.comparison is not None else ""
    return f'<div class="counts">{"".join(parts)}</div>{lines}'


def _fixes(report: Report) -> str:
    found = {layer.code: layer for layer in report.fallen_back}
    items = []
    for code, layer in found.items():
        names = ", ".join(each.name for each in report.fallen_back if each.code == code)
        fix = f'{html.escape(layer.fix)}<br><span class="soft">{html.escape(names)}</span>'
        items.append(f"<dt>{html.escape(layer.reason)}</dt><dd>{fix}</dd>")
    return f"<dl>{''.join(items)}</dl>"


def _table(report: Report) -> str:
    heads = ["layer", "operator", "ran as", "time", "SQNR", "max. error", "why", "code"]
    rows = []
    for each in report.layers:
        error = f"{each.max_error:.3g}" if each.max_error is not None else ""
        key = f'<span class="key" style="background: var(--{_colour(each)})" title="{html.escape(each.state)}"></span>'
        cells = [
            f"<td>{key}{html.escape(each.name)}</td>", f"<td>{html.escape(each.operator)}</td>",
            f"<td>{html.escape(each.ran_as or '?')}</td>",
            *(f'<td class="number">{html.escape(text)}</td>' for text in (report.share(each), report.decibels(each), error)),
            f"<td>{html.escape(each.reason)}</td>", f'<td class="soft">{html.escape(each.source)}</td>',
        ]  # fmt: skip
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{each}</th>" for each in heads)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"


def _colour(layer: Layer) -> str:
    return layer.state.replace(" ", "-")


def _title(layer: Layer) -> str:
    why = f" ({layer.reason})" if layer.reason else ""
    return f"{layer.name}: {layer.operator} ran as {layer.ran_as or '?'}{why}"
