"""Results as text: pass rates, failures by class, and a table per operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .judging import FAILURES, Result
from .known import KNOWN

__all__ = ["failures", "operator_page", "operator_table", "rates"]

_COUNTED = ("pass", *FAILURES)


def rates(results: Sequence[Result]) -> str:
    """One line per exporter, opset and dtype: of what eager can run and is not random, how much passes; what fails how."""
    groups: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    seconds: Counter[tuple[str, int, str]] = Counter()
    for result in results:
        for dtype in (result.dtype, "all"):
            group = result.exporter, result.opset, dtype
            groups[group][result.outcome] += 1
            seconds[group] += result.seconds
    head = f"{'exporter':9}{'opset':>6} {'dtype':9}{'samples':>8}{'passed':>8}" + "".join(f"{name:>12}" for name in FAILURES)
    lines = [f"{head}{'random':>8}{'ms each':>9}"]
    for group, outcomes in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] == "all", item[0][2])):
        exporter, opset, dtype = group
        counted = sum(outcomes[name] for name in _COUNTED)
        share = f"{100 * outcomes['pass'] / counted:.1f} %" if counted else "-"
        each = 1000 * seconds[group] / max(1, counted + outcomes["random"])
        cells = "".join(f"{outcomes[name]:>12}" for name in FAILURES)
        lines.append(f"{exporter:9}{opset:>6} {dtype:9}{counted:>8}{share:>8}{cells}{outcomes['random']:>8}{each:>9.0f}")
    return "\n".join(lines)


def failures(results: Iterable[Result], outcomes: Sequence[str] = FAILURES) -> str:
    """Every failure, by class, one line per operator and reason."""
    grouped: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.outcome in outcomes:
            grouped[result.outcome, result.op, result.detail].append(result)
    order = sorted(grouped, key=lambda group: (FAILURES.index(group[0]), group[1], group[2]))
    return "\n".join(
        f"{outcome:12}{op:40} x{len(grouped[outcome, op, detail])} {_where(grouped[outcome, op, detail])}: {detail}"
        for outcome, op, detail in order
    )


def _where(results: Sequence[Result]) -> str:
    first = results[0]
    return f"{first.dtype}[{first.sample}]@{first.opset}"


def operator_page(results: Sequence[Result], exporter: str) -> str:
    """The page of the documentation: the table, how it came about, and what is known to fail and why."""
    lines = [
        "# Operators",
        "",
        "What becomes of the samples that PyTorch's own test database has for each operator: exported, checked by onnx, run in",
        "ONNX Runtime and compared with eager. `yes`: every sample of every dtype; `3/4 opset`: three of four, and the worst",
        "reason why not (`opset`: a later opset can, `unsupported`: no opset, `capture`: torch.export cannot trace it).",
        "",
        f"Made by `make conformance` and `python -m tests.conformance --report table` (exporter: {exporter}).",
        "",
        "```",
        rates([result for result in results if result.exporter == exporter]),
        "```",
        "",
        operator_table(results, exporter),
        "",
        "## Known to fail",
        "",
    ]
    return "\n".join([*lines, *(f"- `{op}`: {reason}" for op, reason in KNOWN.items())])


def operator_table(results: Sequence[Result], exporter: str) -> str:
    """A Markdown table: operator, dtypes, and for each opset "yes", the share that passes, or why nothing does."""
    opsets = sorted({result.opset for result in results if result.exporter == exporter})
    rows: dict[str, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    dtypes: dict[str, dict[str, None]] = defaultdict(dict)
    for result in results:
        if result.exporter == exporter and result.outcome != "eager":
            rows[result.op][result.opset][result.outcome] += 1
            dtypes[result.op][result.dtype] = None
    lines = [f"| operator | dtypes | {' | '.join(map(str, opsets))} |", f"|---|---|{'---|' * len(opsets)}"]
    for op in sorted(rows):
        cells = " | ".join(_cell(rows[op][opset]) for opset in opsets)
        lines.append(f"| {op} | {', '.join(dtypes[op])} | {cells} |")
    return "\n".join(lines)


def _cell(outcomes: Counter[str]) -> str:
    counted = sum(outcomes.values())
    good = outcomes["pass"] + outcomes["random"]
    if not counted:
        return ""
    if good == counted:
        return "yes"
    worst = next(name for name in FAILURES if outcomes[name])
    return f"{good}/{counted} {worst}" if good else f"no: {worst}"
