"""The page docs/reference/libraries.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "libraries.md"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_ENTRY, _MODELS = ("onnxexp", "torch.onnx"), ("onnxexp", "dynamo=True", "dynamo=False")
_NEWER = "dynamo=True"
_STATES = ("right", "differs", "does not run", "not exported")
_LONGEST = 110

Result = dict[str, Any]


def page(results: Sequence[Result]) -> str:
    """Return the page of these results."""
    entry = [each for each in results if each["kind"] == "entry point"]
    models = [each for each in results if each["kind"] == "model"]
    return f"""# Libraries that export

`make libraries` calls the export functions of libraries as their documentation says, and exports models that they ship. Each runs
in a process of its own, in an environment with these versions, random weights, and onnxexp or torch.onnx behind the library's
`torch.onnx.export`. "Right" is a file that agrees with eager in ONNX Runtime at each size, those that the export did not see
included.

## The libraries' own functions

With `install()`, nothing in the library changes.

{_counts(entry, _ENTRY)}

{_table(entry, _ENTRY)}

After the export, the file goes through what people run on it: onnx's checker, onnxslim, onnxsim, ONNX Runtime's
`quantize_dynamic`, and Netron where there is Node.js, each within the time of the case. {_steps(entry)}

Four of the functions also ran with `dynamo=True`, whichever exporter the library chooses. The times are of one run each, and
include the imports and what the library does before and after the export.

{_times(entry)}

## Their models

By `onnxexp.export` with dynamic axes, and by torch.onnx's two exporters. Each file runs at other sizes than the example's.

{_counts(models, _MODELS)}

{_table(models, _MODELS)}

## Versions

{", ".join(_versions())}.
"""


def _counts(results: Sequence[Result], exporters: Sequence[str]) -> str:
    lines = [f"| exporter | {' | '.join(_STATES)} |", f"|---|{'---|' * len(_STATES)}"]
    for exporter in exporters:
        counted = Counter(each["status"] for each in results if each["exporter"] == exporter)
        lines.append(f"| {exporter} | {' | '.join(str(counted[state]) for state in _STATES)} |")
    return "\n".join(lines)


def _table(results: Sequence[Result], exporters: Sequence[str]) -> str:
    """Return a line for each case: the state with each exporter, and the first reason."""
    by_case: dict[str, dict[str, Result]] = {}
    for each in results:
        by_case.setdefault(each["case"], {})[each["exporter"]] = each
    lines = [f"| case | {' | '.join(exporters)} | reasons |", f"|---|{'---|' * len(exporters)}---|"]
    for case, found in sorted(by_case.items(), key=lambda item: item[0].lower()):
        cells = [_cell(found.get(exporter)) for exporter in exporters]
        lines.append(f"| {case} | {' | '.join(cells)} | {'; '.join(_reasons(found, exporters))} |")
    return "\n".join(lines)


def _times(results: Sequence[Result]) -> str:
    """Return the seconds with onnxexp and with ``dynamo=True``, where both ran."""
    seconds = {(each["case"], each["exporter"]): each.get("seconds") for each in results}
    lines = ["| case | onnxexp | dynamo=True | ratio |", "|---|---|---|---|"]
    for case in sorted({case for case, exporter in seconds if exporter == _NEWER}, key=str.lower):
        own, peer = seconds.get((case, "onnxexp")), seconds[case, _NEWER]
        ratio = f"{own / peer:.2f}" if own and peer else "–"
        lines.append(f"| {case} | {_seconds(own)} | {_seconds(peer)} | {ratio} |")
    return "\n".join(lines)


def _seconds(seconds: float | None) -> str:
    return "no right file" if seconds is None else f"{seconds} s"


def _cell(result: Result | None) -> str:
    if result is None:
        return "not run"
    if result["status"] != "right":
        return str(result["status"])
    return f"right, {result['nodes']:,} nodes, {result['seconds']:g} s"


def _reasons(found: dict[str, Result], exporters: Sequence[str]) -> Iterator[str]:
    for exporter in exporters:
        result = found.get(exporter)
        if result is not None and result["status"] != "right":
            yield f"{exporter}: {_short(result['detail'])}"


def _short(text: str) -> str:
    """Return the beginning of a message, as a cell of a table."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).replace("the model could not be captured:\n", "").splitlines()
    plain = lines[0].strip().replace("|", "\\|").replace("<", "&lt;")
    plain = re.sub(r"/\S*/(?=(?:core|plugins|site-packages)/)", "", plain)  # of this machine
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]} …"


def _steps(results: Sequence[Result]) -> str:
    """Describe the steps after the export that fail, by exporter."""
    parts = []
    for exporter in _ENTRY:
        own = [each for each in results if each["exporter"] == exporter]
        done = [(each["case"], step, result) for each in own for step, result in each["steps"].items()]
        failed = [f"{step} of {case} ({_short(result)})" for case, step, result in done if result != "ok"]
        problems = f"; not {', '.join(failed)}" if failed else ""
        parts.append(f"With {exporter}, {len(done) - len(failed)} of {len(done)} end well{problems}")
    return ". ".join(parts) + "."


def _versions() -> list[str]:
    lines = REQUIREMENTS.read_text("utf-8").splitlines()
    return [line.replace("==", " ") for line in lines if "==" in line and not line.startswith("#")]
