"""Results in a file of JSON lines, and tables of them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from .judging import FAILURES, Result

_TAKEN = ("pass", "rounding", "runtime", "warned")
"""The outcomes of a program that a frontend takes; one that eager refuses at other sizes (\"fixed\") counts for neither."""


def read_results(path: Path) -> list[Result]:
    """Read the results in a file.

    A later result of a program replaces an earlier one, and incomplete lines are skipped.
    """
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
    """Return the rates by exporter and frontend, and the causes with a program each."""
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


def one_sided(results: Iterable[Result]) -> list[Result]:
    """List refusals and failures of programs that the other frontend takes."""
    pairs: dict[tuple[int, str], dict[str, Result]] = defaultdict(dict)
    for result in results:
        pairs[result.seed, result.exporter][result.frontend] = result
    counted = [pair.values() for pair in pairs.values() if not {"eager", "fixed"} & {each.outcome for each in pair.values()}]
    taken = [[each.outcome in _TAKEN for each in pair] for pair in counted]
    return [each for pair, took in zip(counted, taken, strict=True) if any(took) for each in pair if each.outcome not in _TAKEN]


def report_of_frontends(one: Sequence[Result], other: Sequence[Result]) -> str:
    """List what only one of two frontends takes, of the same programs, by cause."""
    found, count = one_sided([*one, *other]), len({result.seed for result in one} & {result.seed for result in other})
    lines = [f"{len(found)} of {count} programs ({_share(len(found), count)}) are right through one frontend only"]
    for frontend in sorted({result.frontend for result in found}):
        lines += _causes([result for result in found if result.frontend == frontend], f"only {frontend} refuses", True)
    return "\n".join(lines)


def _rates(results: Sequence[Result]) -> Iterable[str]:
    """Yield a line for each exporter and frontend.

    The rates leave out the programs with the outcomes "opset" and "fixed".
    """
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
