"""Build the documentation's page of operators on quantized tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .judging import Result
from .page import grouped, operator_table, row, rule, totals
from .quantized import UNSAMPLED, registered

_HEAD = """# Operators on quantized tensors

Models that torch has quantized call operators of the namespace `quantized`, and ATen's operators on quantized tensors. torch's
dispatcher lists these operators, with their overloads. The samples are those of the quantized plugin's tests. Each is a model
that quantizes its inputs to `quint8` or `qint8`, with one scale for a tensor, and dequantizes its results. It is exported,
checked by onnx's full checker, run in ONNX Runtime, and compared with torch's own kernel. A quantized result may differ by one
step of its scale. LSTM and GRU layers may differ by 0.1, because torch quantizes the state at each step and ONNX does not. A
linear layer with a float result may differ by half a step of its bias, which the file has as integers.

`make conformance` measures this too. `python -m tests.conformance --quantized --out conformance.jsonl --report table` then
prints this page.
"""

_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "quantized": "The namespace `quantized`",
        "kernel": "ATen's operators with a kernel for quantized tensors",
        "other": "Other ATen operators on quantized tensors",
    }
)

_READING = """In a cell, `yes` means that every sample passes at every measured opset. Otherwise each range of opsets has its own
word: `no`, or the share that passes, with the kind of the worst failure: `opset` (a later opset works), `unsupported` (no
lowering), `capture` (the plugin refuses the sample), `wrong`, `invalid` or `crash`. A dtype in brackets is the only one that
fails. Operators whose arguments are floats, such as those that quantize at run time, have the dtype f32."""

_SKIPPED = """torch itself cannot run the samples of some operators on this CPU, and some have no samples."""


def quantized_page(results: Sequence[Result]) -> str:
    """Return the page as Markdown."""
    groups = grouped(results, lambda result: _group(result.op))
    parts = [_HEAD, "## In numbers\n", _coverage(results), "", totals(results), "\n## By operator\n", _READING]
    for group, title in _TITLES.items():
        parts += [f"\n### {title}\n", operator_table(groups.get(group, []))]
    return "\n".join([*parts, "\n## Not measured\n", _SKIPPED, "", _not_measured(results), ""])


def _group(op: str) -> str:
    return "quantized" if op.startswith("quantized::") else "kernel" if op in registered() else "other"


def _coverage(results: Sequence[Result]) -> str:
    """Return a table of the operators by what became of their samples."""
    by_op = grouped(results, lambda result: result.op)
    every: Mapping[str, Callable[[set[str]], bool]] = {
        "all samples pass": lambda outcomes: outcomes <= {"pass", "random"} and bool(outcomes),
        "some pass": lambda outcomes: "pass" in outcomes and not outcomes <= {"pass", "random"},
        "none passes": lambda outcomes: bool(outcomes) and "pass" not in outcomes,
        "not measured": lambda outcomes: not outcomes,
    }
    lines = [row("operators", "number", *every), rule(len(every) + 2)]
    for group, title in _TITLES.items():
        ops = {op for op in (*registered(), *by_op) if _group(op) == group}
        found = [{result.outcome for result in by_op.get(op, [])} - {"eager"} for op in ops]
        lines.append(row(title, str(len(ops)), *(str(sum(map(holds, found)) or "") for holds in every.values())))
    return "\n".join(lines)


def _not_measured(results: Sequence[Result]) -> str:
    """Return a table of the operators without a measurement, and the reasons."""
    by_op = grouped(results, lambda result: result.op)
    lines = [row("operator", "reason"), rule(2)]
    for op in sorted({*registered(), *by_op}):
        of_op = by_op.get(op, [])
        if all(result.outcome == "eager" for result in of_op):
            reason = f"torch: {of_op[0].detail.partition(': ')[2][:110]}" if of_op else UNSAMPLED.get(op, "it has no sample yet")
            lines.append(row(op, reason.replace("|", "\\|").replace("<", "\\<")))
    return "\n".join(lines)
