"""Results in a file of JSON lines, and tables of them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from .judging import FAILURES, Result

__all__ = ["read_results", "report", "text_of"]


def read_results(path: Path) -> list[Result]:
    """Return the results in a file; a later one of the same program replaces an earlier one. Incomplete lines are skipped."""
    found: dict[tuple[int, str], Result] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[result.seed, result.exporter] = result
    return [*found.values()]


def text_of(result: Result) -> str:
    """Return a result's line in the file."""
    return json.dumps(dataclasses.asdict(result)) + "\n"


def report(results: Sequence[Result], programs: bool = True) -> str:
    """Return the rates by exporter and frontend, and the causes with the smallest program of each."""
    judged = [result for result in results if result.outcome != "eager"]
    lines = [*_rates(judged)]
    ours = [result for result in judged if result.exporter == "onnxexp"]
    for outcome in (*FAILURES, "warned", "refused", "runtime", "opset", "fixed", "rounding"):
        lines += _causes(
            [result for result in ours if result.outcome == outcome],
            outcome,
            programs and outcome in (*FAILURES, "warned", "refused", "runtime"),
        )
    return "\n".join(lines)


def _rates(results: Sequence[Result]) -> Iterable[str]:
    """Yield a line for each exporter and frontend. The refusal rate leaves out what the opset cannot express."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[f"{result.exporter} ({result.frontend})" if result.exporter == "onnxexp" else result.exporter].append(result)
        if result.exporter == "onnxexp":
            groups["onnxexp"].append(result)
    for name, found in sorted(groups.items(), reverse=True):
        counts = Counter(result.outcome for result in found)
        able = len(found) - counts["opset"] - counts["fixed"]
        shares = [f"{counts[outcome]} {outcome} ({_share(counts[outcome], able)})" for outcome in ("pass", "refused")]
        rest = [f"{count} {outcome}" for outcome, count in counts.most_common() if outcome not in ("pass", "refused")]
        yield f"{name}: {len(found)} programs, {', '.join([*shares, *rest])}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _causes(results: Sequence[Result], outcome: str, programs: bool) -> Iterable[str]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.cause].append(result)
    if groups:
        yield f"\n{outcome}: {len(results)} programs, {len(groups)} causes"
    for cause, found in sorted(groups.items(), key=lambda group: -len(group[1])):
        smallest = min(found, key=lambda result: (not result.operators, result.statements, len(result.source)))
        where = f" at {smallest.sizes}" if smallest.sizes else ""
        yield f"  {len(found)}x {cause} (seed {', '.join(str(result.seed) for result in found[:6])})"
        if programs:
            yield f"      {smallest.detail[:400]}{where}"
            body = [
                line
                for line in smallest.source.splitlines()
                if line.startswith((" " * 8, "args", "program = ")) and "super()" not in line
            ]
            yield from (f"      | {line.removeprefix('        ')}" for line in body if "manual_seed(0)" not in line)
