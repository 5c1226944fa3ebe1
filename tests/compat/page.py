"""The page docs/reference/compatibility.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.packaging.environments import ROOT

from .environments import FIRST, ROWS, Row
from .measuring import EVERY, OPSET, PACKAGES
from .results import POINTS, Results, green, share

PAGE = ROOT / "docs" / "reference" / "compatibility.md"

_COLUMNS = ("python", "torch", "onnx", "onnxruntime", "onnx-ir", "numpy", "pluggy")
_NOT_RUN = "not run yet"


def page(results: Results) -> str:
    """Return the text of the page."""
    return f"""# Compatibility

Each row is an environment that pip makes: the versions in it, and what ran there. `make compat` runs what is not run yet, and
writes this page.

- **tests**: the tests of `make test`: passed, failed, skipped. Those that fail run a second time, alone, and after a change
  that mends them.
- **demo**: the export of `make demo`, compared with eager PyTorch at two batch sizes.
- **conformance**: the passing share of a slice of PyTorch's operator database, about one operator of {EVERY}, at opset {OPSET}
  with both frontends. It may be at most {POINTS:g} point below that of the first row.
- **export ÷ capture**: the processor time of an export of BERT-base (110 million parameters), divided by that of
  `torch.export.export` alone.

A cell that is not as it must be begins with **red**. {_summary(results)}

| row | {" | ".join(_COLUMNS)} | tests | demo | conformance | export ÷ capture |
|---|{"---|" * len(_COLUMNS)}---|---|---|---|
{"".join(_line(results, row) for row in ROWS)}
"Not run yet": the result is unknown. The figures, with the commit and the date of each, are in
[compatibility.json](compatibility.json).

## The rows

{"".join(_section(results, row) for row in ROWS).rstrip()}
"""


def _summary(results: Results) -> str:
    states = [[green(results, row.name, part) for part in ("tests", "demo", "conformance", "bench")] for row in ROWS]
    counted = {"are green": 0, "are red": 0, "are not complete": 0}
    for each in states:
        counted["are red" if False in each else "are not complete" if None in each else "are green"] += 1
    return f"Of {len(ROWS)} rows, " + ", ".join(f"{number} {what}" for what, number in counted.items()) + "."


def _line(results: Results, row: Row) -> str:
    parts = results.get(row.name, {})
    found = parts.get("versions", {})
    planned = {"python": row.python} | dict(pin.split("==") for pin in row.pins)
    versions = [found.get(name) or planned.get(name, "newest") for name in _COLUMNS]
    cells = [_cell(results, row.name, part) for part in ("tests", "demo", "conformance", "bench")]
    return f"| {' | '.join([row.name, *versions, *cells])} |\n"


def _cell(results: Results, name: str, part: str) -> str:
    state = green(results, name, part)
    if state is None:
        return _NOT_RUN
    figures = results[name][part]
    return ("" if state else "**red**: ") + ("failed" if "problem" in figures else _FIGURES[part](figures))


def _tests(figures: dict[str, Any]) -> str:
    failed = f", {figures['failed']} failed" if figures["failed"] else ""
    return f"{figures['passed']:,} passed{failed}, {figures['skipped']:,} skipped"


_FIGURES = {
    "tests": _tests,
    "demo": lambda figures: "agrees",
    "conformance": lambda figures: f"{share(figures):.1f} % of {figures['samples']:,}",
    "bench": lambda figures: f"{figures['export'] / figures['capture']:.2f}",
}


def _section(results: Results, row: Row) -> str:
    parts = results.get(row.name, {})
    lines = [f"### {row.name}\n", f"{row.reason[0].upper()}{row.reason[1:]}.\n"]
    others = {name: found for name, found in parts.get("versions", {}).items() if name in PACKAGES and name not in _COLUMNS}
    if others:
        lines.append(f"Beside them: {', '.join(map(' '.join, others.items()))}.\n")
    lines += [f"- Without {name}: {reason}." for name, reason in row.without.items()]
    lines += [f"- {part}: {figures['problem']}" for part, figures in parts.items() if "problem" in figures]
    lines += [f"- Failed: `{name}`" for name in parts.get("tests", {}).get("failures", [])]
    lines += [f"- Failed beside others, and passes alone: `{name}`" for name in parts.get("tests", {}).get("passed_alone", [])]
    mended = Counter(parts.get("tests", {}).get("mended", {}).values())
    lines += [
        f"- Repeated after a change: {number:,} of the tests, since {commit} none of them fails"
        for commit, number in mended.items()
    ]
    lines += _differences(results, row)
    return "\n".join(lines).rstrip() + "\n\n"


def _differences(results: Results, row: Row) -> Iterator[str]:
    """Yield lines about skips and failures that the first environment does not have."""
    parts, first = results.get(row.name, {}), results.get(FIRST.name, {})
    if row is FIRST:
        return
    known = Counter(first.get("tests", {}).get("skips", {}))
    skipped = Counter(parts.get("tests", {}).get("skips", {})) - known
    yield from _listed(
        "Skipped here, beside what the first row skips:", [f"{skipped[each]} × {each}" for each in sorted(skipped)]
    )
    if "failing" in parts.get("conformance", {}) and "failing" in first.get("conformance", {}):
        failing = {*parts["conformance"]["failing"]} - {*first["conformance"]["failing"]}
        yield from _listed("Passes in the first row, or is no sample there:", sorted(failing))


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"- {title}"
        yield from (f"    - {line}" for line in lines)
