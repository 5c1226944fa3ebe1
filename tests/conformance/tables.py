"""Format results as text: pass rates, processor time, failures by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from .judging import FAILURES, Result

COUNTED = ("pass", *FAILURES)
"""The outcomes of samples that run in eager and are not random."""

PEERS: Mapping[str, tuple[str, float]] = MappingProxyType({"export": ("dynamo", 0.1), "trace": ("script", 1.0)})
"""The peer of each of onnxexp's exporters, and the largest accepted ratio of their processor times."""


def rates(results: Sequence[Result]) -> str:
    """Return a line per exporter, opset and dtype, and the ratios to the peers.

    A line has the pass rate among samples that run in eager and are not random, the failures by class, and the processor seconds
    of the exports, without the first export of each process (see `worker`).
    """
    groups: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    others: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    seconds: Counter[tuple[str, int, str]] = Counter()
    for result in results:
        for dtype in (result.dtype, "all"):
            group = result.exporter, result.opset, dtype
            groups[group][result.outcome] += 1
            others[group][result.others] += 1
            seconds[group] += result.seconds
    head = f"{'exporter':13}{'opset':>6} {'dtype':9}{'samples':>8}{'passed':>8}" + "".join(f"{name:>12}" for name in FAILURES)
    lines = [f"{head}{'random':>8}{'seconds':>9}{'ms each':>9}"]
    for group, outcomes in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] == "all", item[0][2])):
        exporter, opset, dtype = group
        counted = sum(outcomes[name] for name in COUNTED)
        share = f"{100 * outcomes['pass'] / counted:.1f} %" if counted else "-"
        each = 1000 * seconds[group] / max(1, counted + outcomes["random"])
        cells = "".join(f"{outcomes[name]:>12}" for name in FAILURES)
        cost = f"{seconds[group]:>9.1f}{each:>9.0f}"
        counts = f"{counted:>8}{share:>8}{cells}{outcomes['random']:>8}"
        lines.append(f"{exporter:13}{opset:>6} {dtype:9}{counts}{cost}{_at_others(others[group])}")
    return "\n".join([*lines, *ratios(results)])


def ratios(results: Sequence[Result]) -> list[str]:
    """Return the ratios of processor time to the peers'.

    One ratio is over the common samples, and one over those that both pass, since a refused sample takes little time. The first
    export of each process is excluded (see `worker`).
    """
    lines = []
    for ours, (peer, goal) in PEERS.items():
        theirs = {_sample(result): result for result in results if result.exporter == peer and result.outcome != "eager"}
        pairs: dict[tuple[int, str], list[tuple[Result, Result]]] = defaultdict(list)
        for result in results:
            if result.exporter == ours and _sample(result) in theirs:
                pairs[result.opset, result.dtype].append((result, theirs[_sample(result)]))
        for (opset, dtype), both in sorted(pairs.items()):
            passed = [pair for pair in both if all(result.outcome == "pass" for result in pair)]
            title = f"{ours} ÷ {peer}, opset {opset}, {dtype}"
            lines += _ratio(f"{title}: ", both, f" (at most {goal:g}) over {len(both)} samples")
            lines += _ratio(f"{title}, where both pass: ", passed, f" (at most {goal:g}) over {len(passed)} samples")
    return lines


def _ratio(title: str, pairs: Sequence[tuple[Result, Result]], note: str) -> list[str]:
    """Return one line with a ratio; none if the peer took no time."""
    mine, other = (sum(pair[place].seconds for pair in pairs) for place in (0, 1))
    return [f"{title}{mine:.2f} s ÷ {other:.2f} s = {mine / other:.3f}{note}"] if other else []


def _sample(result: Result) -> tuple[str, str, int, int]:
    return result.op, result.dtype, result.sample, result.opset


OTHERS = ("larger and 1", "larger", "1", "refused", "static", "fixed", "single")
"""The values of `Result.others`, in the order of the report."""


def _at_others(others: Counter[str]) -> str:
    """Return the numbers of correct samples by the other sizes of the check."""
    listed = ", ".join(f"{others[name]} {name}" for name in OTHERS if others[name])
    return f"  other sizes: {listed}" if listed else ""


def failures(results: Iterable[Result], outcomes: Sequence[str] = FAILURES) -> str:
    """Return the failures by class, one line per operator and reason."""
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
    return f"{first.exporter} {first.dtype}[{first.sample}]@{first.opset}"
