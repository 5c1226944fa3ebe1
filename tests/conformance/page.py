"""Build the documentation's page of operators: pass rates and failures."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from . import extremes, quantized
from .judging import FAILURES, Result
from .known import known
from .known_extremes import KNOWN_AT_9, KNOWN_EXTREMES
from .samples import DTYPES, family_of
from .tables import COUNTED, OTHERS, ratios

OURS = ("export", "trace", "dynamic", "trace-dynamic")

_SHORT = {"float32": "f32", "int64": "i64", "float64": "f64", "float16": "f16", "int32": "i32", "uint8": "u8"}
_DTYPES = dict.fromkeys((*DTYPES, *quantized.DTYPES))
_TITLES = {"unsupported": "no operator"}
_LONGEST = 110
_PREFIX = re.compile(r"^\w+: (.*?\(\d+x\): )?")
"""The class of the error and the count of the operator, which a row of the table need not repeat."""

Key = TypeVar("Key")

_HEAD = """# Operators

PyTorch's own test database (OpInfo) has samples for each operator. Each sample is exported, checked by onnx's full checker,
run in ONNX Runtime, and compared with eager: values, dtypes and shapes. `export` captures with torch.export, `trace` with
TorchScript. `dynamic` and `trace-dynamic` do the same with every axis dynamic that eager accepts at another size, and also run
the model at two other sets of sizes. Operators of sparse tensors, which ONNX lacks, are left out; `random` counts the samples of
random operators: only their dtypes and shapes are compared.

`make conformance` measures all of this. `python -m tests.conformance --out conformance.jsonl --report table` then prints this
page.
"""

_RATIOS = """Processor time of the exports alone, ours divided by torch.onnx's, over the samples that both exporters ran, and
over those that both pass. Each exporter makes one tiny export in the process before; the benchmarks measure the first export.
torch loads an operator's code when an exporter first meets the operator, so the exporters take turns in going first."""

_OTHER = """A model with dynamic axes also runs at larger sizes, which differ from each other where eager accepts that, and at
sizes of 1, as many as eager accepts. A difference from eager there counts as `wrong` above. What eager refuses, or what the
export has excluded by a warning (`x.squeeze()` where the axis is 1 long), cannot be compared. The columns count the samples that
are right by the sets that they were compared at. `refused`: neither set; `static`: the capture fixed all axes, which `Dim.AUTO`
allows; `fixed`: eager itself accepts one size only, such as a matrix for `view(2, 3)`; `single`: no axis is longer than 1."""

_READING = """In a cell, `yes` means that every sample of every dtype passes at every measured opset. Otherwise each range of
opsets has its own word: `no`, or the share that passes, with the kind of the worst failure. The kinds are `opset` (a later
opset works), `unsupported` (no lowering), `capture` (torch's own frontend refuses the sample; the reason is beside it),
`wrong`, `invalid` and `crash`. A dtype in brackets is the only one that fails. Dtypes: f16, f32, f64, i32, i64, u8, bool.
The column `extremes` has the first sample in float32, float16 and int64, traced at opsets 9 and 20, with NaN, infinities, zeros
of both signs and denormals, the dtype's largest and smallest number, 0-d tensors and empty ones, as far as eager takes them. A
zero equals a zero of the other sign: ONNX Runtime's own Where loses it."""


def operator_page(results: Sequence[Result], extreme: Sequence[Result] = ()) -> str:
    """Return the page as Markdown; `extreme` are the results at the borders."""
    parts = [_HEAD, "## In numbers\n", totals(results)]
    if lines := ratios(results):
        parts += [f"\n{_RATIOS}\n"]
        parts += [f"- {line}" for line in lines]
    if any(result.others for result in results):
        parts += ["\n## At other sizes\n", _OTHER, "", _other_sizes(results)]
    parts += ["\n## By family\n", "The share of passing samples, lowest to highest over the opsets.\n", _families(results)]
    parts += ["\n## By operator\n", _READING, "", operator_table(results, extreme)]
    return "\n".join(parts)


def totals(results: Sequence[Result]) -> str:
    """Return the table of samples, passes, failures and seconds by exporter and opset."""
    names = [*FAILURES, "random"]
    lines = [row("exporter", "opset", "samples", "passed", *(_TITLES.get(name, name) for name in names), "seconds")]
    lines.append(rule(len(names) + 5))
    for (exporter, opset), group in sorted(
        grouped(results, lambda result: (result.exporter, result.opset)).items(), key=_ours_first
    ):
        outcomes = Counter(result.outcome for result in group)
        counted = sum(outcomes[name] for name in COUNTED)
        seconds = sum(result.seconds for result in group)
        cells = (str(outcomes[name] or "") for name in names)
        lines.append(row(exporter, str(opset), str(counted), _share(outcomes), *cells, f"{seconds:.0f}"))
    return "\n".join(lines)


def _other_sizes(results: Sequence[Result]) -> str:
    """Return the table of right samples by the other sizes of the comparison."""
    lines = [row("exporter", "opset", *OTHERS), rule(len(OTHERS) + 2)]
    right = (result for result in results if result.others and result.outcome in ("pass", "random"))
    for (exporter, opset), group in sorted(
        grouped(right, lambda result: (result.exporter, result.opset)).items(), key=_ours_first
    ):
        counts = Counter(result.others for result in group)
        lines.append(row(exporter, str(opset), *(str(counts[name] or "") for name in OTHERS)))
    return "\n".join(lines)


def _ours_first(item: tuple[tuple[str, int], list[Result]]) -> tuple[int, str, int]:
    (exporter, opset), _ = item
    return OURS.index(exporter) if exporter in OURS else len(OURS), exporter, opset


def _families(results: Sequence[Result]) -> str:
    exporters = _exporters(results)
    results = [result for result in results if result.exporter in OURS]
    lines = [row("family", "operators", *map(str, exporters)), rule(len(exporters) + 2)]
    for family, members in sorted(grouped(results, lambda result: family_of(result.op)).items()):
        cells = []
        for exporter in exporters:
            of_it = grouped((result for result in members if result.exporter == exporter), lambda result: result.opset)
            shares = sorted((_passed(Counter(result.outcome for result in group)) for group in of_it.values()), key=float)
            ends = dict.fromkeys(f"{share:.1f}" for share in (shares[0], shares[-1])) if shares else {}
            cells.append(f"{'–'.join(ends)} %" if ends else "")
        lines.append(row(family, str(len({result.op for result in members})), *cells))
    return "\n".join(lines)


def operator_table(results: Sequence[Result], extreme: Sequence[Result] = ()) -> str:
    """Return a table of operators: dtypes, a cell per frontend, the reason.

    `extreme` adds a column with the results at the borders.
    """
    borders = grouped((each for each in extreme if each.outcome != "eager"), lambda each: each.op.removeprefix(extremes.PREFIX))
    more = ["extremes"] if extreme else []
    exporters = _exporters(results)
    results = [result for result in results if result.exporter in OURS and result.outcome != "eager"]
    measured = {name: sorted({result.opset for result in results if result.exporter == name}) for name in exporters}
    titles = [f"{name} ({_range(opsets)})" for name, opsets in measured.items()]
    lines = [row("operator", "dtypes", *titles, *more, "why not"), rule(len(exporters) + len(more) + 3)]
    for op, of_op in sorted(grouped(results, lambda result: result.op).items()):
        by_exporter = grouped(of_op, lambda result: result.exporter)
        cells = [_cell(by_exporter.get(name, [])) for name in exporters]
        dtypes = " ".join(_SHORT.get(dtype, dtype) for dtype in _DTYPES if any(result.dtype == dtype for result in of_op))
        cells += [_cell(borders.get(op, [])) for _ in more]
        lines.append(row(op, dtypes, *cells, _reason(op, of_op) or known_at_borders(op, borders.get(op, []))))
    return "\n".join(lines)


def _cell(results: Sequence[Result]) -> str:
    """Return "yes", or a word for each range of opsets with the same outcome."""
    words = {opset: _word(group) for opset, group in sorted(grouped(results, lambda result: result.opset).items())}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    runs = [(word, list(opsets)) for word, opsets in itertools.groupby(words, key=words.__getitem__)]
    return "; ".join(f"{_range(opsets)}: {word}" for word, opsets in runs)


def _word(results: Sequence[Result]) -> str:
    outcomes = Counter(result.outcome for result in results)
    good = outcomes["pass"] + outcomes["random"]
    if good == len(results):
        return "yes"
    worst = next(name for name in FAILURES if outcomes[name])
    if not good:
        return f"no: {worst}"
    failing = {result.dtype for result in results if result.outcome in FAILURES}
    only = f" ({_SHORT.get(*failing, *failing)})" if len(failing) == 1 and len({result.dtype for result in results}) > 1 else ""
    return f"{good}/{len(results)} {worst}{only}"


def _reason(op: str, results: Sequence[Result]) -> str:
    """Return the reason of the worst failure: the known one, else the error's message."""
    failed = sorted((result for result in results if result.outcome in FAILURES), key=lambda one: FAILURES.index(one.outcome))
    if not failed:
        return ""
    if reason := known(op, failed[0].exporter):
        return reason
    text = _PREFIX.sub("", failed[0].detail).partition(" at File ")[0]
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …").replace("|", "\\|").replace("<", "\\<")


def known_at_borders(op: str, results: Sequence[Result]) -> str:
    """Return the reason of an operator's differences at the borders, "" without any."""
    return KNOWN_EXTREMES.get(op, KNOWN_AT_9.get(op, "")) if any(result.outcome in FAILURES for result in results) else ""


def _passed(outcomes: Counter[str]) -> float:
    counted = sum(outcomes[name] for name in (*COUNTED, "random"))
    return 100 * (outcomes["pass"] + outcomes["random"]) / counted if counted else 100.0


def _share(outcomes: Counter[str]) -> str:
    counted = sum(outcomes[name] for name in COUNTED)
    return f"{100 * outcomes['pass'] / counted:.1f} %" if counted else ""


def _exporters(results: Sequence[Result]) -> list[str]:
    return [name for name in OURS if any(result.exporter == name for result in results)]


def grouped(results: Iterable[Result], key: Callable[[Result], Key]) -> dict[Key, list[Result]]:
    groups: dict[Key, list[Result]] = defaultdict(list)
    for result in results:
        groups[key(result)].append(result)
    return groups


def _range(opsets: Sequence[int]) -> str:
    return str(opsets[0]) if len(opsets) == 1 else f"{opsets[0]}–{opsets[-1]}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rule(columns: int) -> str:
    return f"|{'---|' * columns}"
