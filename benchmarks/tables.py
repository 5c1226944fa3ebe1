"""Build the tables of a run, and show them with rich or as Markdown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table as RichTable

from . import targets
from .bridge import LIMIT
from .checking import CHUNK, LIMITS
from .decoding import CACHES, GOAL, OTHERS, RATIOS, SHARED, TOKENS
from .exporters import PEERS
from .large import LargeResult
from .quantized import QuantizedResult
from .quantized_worker import FLOAT, OWN
from .results import ModelResult, Run, ToolResult
from .targets import MB, Verdict

_NONE = "–"


@dataclasses.dataclass(frozen=True)
class Table:
    """A title, a note, and rows of text under headings."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numeric: bool = True


def tables(run: Run) -> list[Table]:
    """Return all tables of the run, the verdicts first."""
    models = run.models
    built = [
        _targets(targets.verdicts(models)),
        _time(models),
        _memory(models),
        _graphs(models),
        _latency(models),
        _trace(models),
        _quantized(run.quantized),
        _bridge(run.bridge),
        _checking(run.checking),
        _large(run.large),
        _decoding(run.decoding),
        _decoding_shares(run.decoding_shares),
        _contrib_operators(run.contrib_operators),
        _platform(run.platform),
        _failures(models),
    ]
    return [table for table in built if table.rows]


def _number(value: float | None, digits: int = 2, unit: float = 1.0) -> str:
    return _NONE if value is None else f"{value / unit:,.{digits}f}"


def _own(model: ModelResult, figure: Callable[[ToolResult], float], digits: int = 0, unit: float = 1.0) -> list[str]:
    """Format the figure of onnxexp and each peer, with "–" for an excluded result."""
    found = {"onnxexp": model.onnxexp, **{name: model.tools[name] for name in PEERS}}
    return [_number(None if tool.reason is not None else figure(tool), digits, unit) for tool in found.values()]


Figure = Callable[[ModelResult], "float | None"]


def _mean_row(models: Sequence[ModelResult], columns: Sequence[Figure | None]) -> list[tuple[str, ...]]:
    """Return a row with the geometric means of the columns that are ratios."""
    cells = []
    for column in columns:
        values = [value for model in models if column is not None and (value := column(model)) is not None]
        cells.append(f"**{targets.geometric_mean(values):.2f}**" if values else "")
    return [("**geometric mean**", *cells)] if any(cells) else []


def _targets(found: list[Verdict]) -> Table:
    rows = []
    for verdict in found:
        worst = max(verdict.figures, key=lambda name: verdict.figures[name])
        missed = ", ".join(f"{name} {figure:,.4g}" for name, figure in verdict.missed.items())
        state = f"{len(verdict.figures) - len(verdict.missed)} of {len(verdict.figures)}"
        reached = f"{verdict.figures[worst]:,.4g} ({worst})"
        rows.append((verdict.target.key, verdict.target.text, f"{verdict.target.limit:g}", reached, state, missed or "none"))
    return Table("Targets", "", ("target", "what", "at most", "worst", "met by", "missed by"), rows, numeric=False)


def _time(models: Sequence[ModelResult]) -> Table:
    ratios = [targets.time_ratio("dynamo"), targets.time_ratio("script"), targets.first_ratio("dynamo")]
    rows = []
    for model in models:
        capture = model.onnxexp.capture_seconds
        over = targets.over_capture(model)
        rows.append((
            model.name, *_own(model, lambda tool: tool.seconds, 3), *(_number(ratio(model)) for ratio in ratios),
            _number(capture, 3), _number(over, 1, 1e-3), _number(targets.after_capture(model)),
        ))  # fmt: skip
    note = (
        "Median seconds of an export, and onnxexp's time divided by each peer's. 'first' compares the model's first export in a "
        "process. The last three columns: torch.export.export alone, onnxexp's milliseconds beyond it, and the same as a share."
    )
    header = (
        "model",
        "onnxexp",
        "dynamo",
        "script",
        "÷ dynamo",
        "÷ script",
        "first ÷ dynamo",
        "capture",
        "over, ms",
        "over ÷ capture",
    )
    return Table("Export time", note, header, rows + _mean_row(models, [None, None, None, *ratios, None, None, None]))


def _memory(models: Sequence[ModelResult]) -> Table:
    ratios = [targets.growth_ratio("dynamo"), targets.growth_ratio("script")]
    rows = []
    for model in models:
        capture = None if model.capture.reason is not None else float(model.capture.growth)
        weights = float(model.onnxexp.weights or model.capture.weights)
        rows.append((
            model.name, _number(weights, 1, MB), _number(capture, 0, MB), *_own(model, lambda tool: tool.growth, 0, MB),
            *(_number(ratio(model)) for ratio in ratios), _number(targets.growth_over_capture(model)),
        ))  # fmt: skip
    note = "Growth of the process's peak resident memory in MB (10^6 bytes). The last column is (onnxexp - capture) ÷ weights."
    header = ("model", "weights", "capture", "onnxexp", "dynamo", "script", "÷ dynamo", "÷ script", "over capture ÷ weights")
    return Table("Peak memory growth", note, header, rows)


def _graphs(models: Sequence[ModelResult]) -> Table:
    rows = []
    for model in models:
        counted = [f"{tool} +{constants}" if constants not in ("0", _NONE) else tool for tool, constants in zip(
            _own(model, lambda tool: tool.nodes), _own(model, lambda tool: tool.constants), strict=True)]  # fmt: skip
        sizes = _own(model, lambda tool: tool.file, 2, MB)
        ratios = [_number(targets.size_ratio(peer)(model), 3) for peer in PEERS]
        rows.append((model.name, *counted, *sizes, *ratios))
    note = "Nodes of the graph and its subgraphs, with Constant nodes after the '+'; MB of the file with its external data."
    header = ("model", *(f"nodes {tool}" for tool in ("onnxexp", *PEERS)), *(f"MB {tool}" for tool in ("onnxexp", *PEERS)),
              "size ÷ dynamo", "size ÷ script")  # fmt: skip
    return Table("Graph and file", note, header, rows)


def _trace(models: Sequence[ModelResult]) -> Table:
    ratios: list[Figure] = [targets.trace_time, targets.trace_latency, targets.trace_twice]
    rows = []
    for model in models:
        traced = model.trace
        if traced is not None:
            peer = model.peers.get("script")
            seconds, nodes = (None, None) if peer is None else (peer.seconds, peer.nodes)
            rows.append((
                model.name, _number(traced.seconds, 3), _number(seconds, 3), *(_number(ratio(model)) for ratio in ratios),
                _number(traced.nodes, 0), _number(nodes, 0), f"{traced.error:.1e}",
            ))  # fmt: skip
    note = (
        'capture="trace" and dynamo=False side by side: median seconds of an export that traces once, ratios of time and of '
        "latency, the time of an export that traces twice ÷ that of one that traces once, nodes."
    )
    header = ("model", "trace", "script", "time ÷ script", "latency ÷ script", "twice ÷ once", "nodes trace", "nodes script",
              "error")  # fmt: skip
    return Table(
        "Through a trace", note, header, rows + (_mean_row(models, [None, None, *ratios, None, None, None]) if rows else [])
    )


def _control(model: ModelResult) -> float | None:
    if not model.control or model.onnxexp.reason is not None:
        return None
    return model.onnxexp.latency_ratio(ToolResult(latencies=model.control))


def _latency(models: Sequence[ModelResult]) -> Table:
    ratios: list[Figure] = [targets.latency_ratio("dynamo"), targets.latency_ratio("script"), targets.best_latency_ratio]
    rows = []
    for model in models:
        error = None if model.onnxexp.reason is not None else model.onnxexp.error
        rows.append((
            model.name, *_own(model, lambda tool: tool.latency, 3, 1e-3), *(_number(ratio(model), 3) for ratio in ratios),
            _number(_control(model), 3), _NONE if error is None else f"{error:.1e}",
        ))  # fmt: skip
    note = (
        "Milliseconds per run in ONNX Runtime, and onnxexp's divided by each peer's and the better one's. 'itself' compares "
        "onnxexp's file with a second session of the same file, the noise. Errors are relative to eager's largest value."
    )
    header = ("model", "onnxexp", "dynamo", "script", "÷ dynamo", "÷ script", "÷ better", "÷ itself", "error")
    return Table("ONNX Runtime latency", note, header, rows + _mean_row(models, [None, None, None, *ratios, _control, None]))


def _quantized(results: Sequence[QuantizedResult]) -> Table:
    rows = []
    for each in results:
        latencies = [_number(each.figure(tool, "latency"), 3, 1e-3) for tool in (FLOAT, OWN, *PEERS)]
        ratios = (each.ratio("latency", FLOAT), each.latency_over_best, each.ratio("file", FLOAT), each.figure(OWN, "error"))
        missed = each.reason or ", ".join(each.misses) or "none"
        rows.append((each.name, *latencies, *(_number(ratio, 3) for ratio in ratios), missed))
    note = (
        "Milliseconds per run in ONNX Runtime: onnxexp's file of the float model, its file of the quantized model, and "
        "torch.onnx's (– where it refuses the model). Latency and size are divided by the float file's. Errors are relative "
        "to the largest value of torch's quantized model."
    )
    header = ("model", "float", "onnxexp", *PEERS, "÷ float", "÷ better", "file ÷ float", "error", "missed")
    return Table("Quantized models", note, header, rows)


def _bridge(microseconds: dict[str, float]) -> Table:
    rows = [(name, _number(value, 2)) for name, value in microseconds.items()]
    note = (
        "Microseconds per call of aten::mul on 16 numbers, 256 calls in a chain, one thread. The bridge may add "
        f"{LIMIT:.0f} to ONNX Runtime's kernel. torch.onnx writes such nodes, and nothing runs them."
    )
    return Table("A C++ operator through the torch bridge", note, ("called by", "µs"), rows)


def _checking(models: dict[str, dict[str, float]]) -> Table:
    rows = [(name, *(_number(figures.get(key), 2) for key in LIMITS)) for name, figures in models.items()]
    limits = [("at most", *(_number(limit, 1) for limit in LIMITS.values()))] if rows else []
    note = (
        f"`find_mismatch(chunk_bytes={CHUNK >> 20} MiB)` compares every captured node; the ONNX run loads the model. Times are "
        "processor time of one thread, but for opening the page in Chromium. torch.onnx has neither."
    )
    return Table("Checks and reports", note, ("model", *LIMITS), rows + limits)


def _large(results: Sequence[LargeResult]) -> Table:
    rows = []
    for each in results:
        memory = [_number(value / each.weights, 3) for value in (each.growth, each.anonymous)] if each.weights else []
        times = [each.seconds, each.capture, each.copy, each.time_ratio] if each.weights else []
        missed = each.reason or ", ".join(each.misses) or "none"
        figures = [_number(each.weights, 1, 1e9), *memory, *(_number(value) for value in times)]
        rows.append((each.name, each.tool, *(figures if each.weights else [_NONE] * 7), missed))
    note = (
        "Llama-like models in float16, of 1 billion parameters in memory, and of 7 billion on the meta device with a checkpoint. "
        "Growth of the peak resident memory ÷ weights (at most 0.15 and 0.1), and of the part without mapped files. Seconds of "
        "the export, of torch.export.export alone, and of a copy of the weights; the export ÷ (2 x capture + copy), at most 1."
    )
    header = ("model", "tool", "weights, GB", "growth ÷ weights", "anonymous ÷ weights", "export", "capture", "copy",
              "÷ (2 x capture + copy)", "missed")  # fmt: skip
    return Table("Large models", note, header, rows)


def _decoding(rows: dict[str, dict[str, float]]) -> Table:
    ratios = (*RATIOS, SHARED)
    names = list(dict.fromkeys(name for figures in rows.values() for name in figures if name not in ratios))
    built = [
        (row, *(_number(figures.get(name), 1) for name in names), *(_number(figures.get(name), 2) for name in ratios))
        for row, figures in rows.items()
    ]
    note = (
        f"Tokens per second, greedy, batch 1, {TOKENS} tokens: eager torch, and files in ONNX Runtime, by onnxexp_transformers. "
        "A past cache grows, its presents are bound as the past of the next step; a static one, for "
        f"{CACHES['static']['max_length']} tokens, is written in place. Opset 20 unless another is named. contrib is "
        f"target='onnxruntime-contrib', whose goal is {GOAL} times onnxexp's composition. The last column compares contrib with "
        "the composition and a past cache. Processor time with one thread."
    )
    return Table("Decoding", note, ("", *names, *ratios), built)


def _decoding_shares(rows: dict[str, dict[str, float]]) -> Table:
    built = [(row, ", ".join(f"{name} {share:.2f}" for name, share in shares.items())) for row, shares in rows.items()]
    note = (
        f"The share of operators in the time of all nodes, in ONNX Runtime's profile of {TOKENS} tokens; {OTHERS} are the rest. "
        "MatMul is mostly the products with the weights, which are the same in all files."
    )
    return Table("Decoding, operators", note, ("", "shares"), built)


def _contrib_operators(ratios: dict[str, float]) -> Table:
    note = (
        "Speed of one form ÷ that of another, in ONNX Runtime with one thread: operators of com.microsoft against what onnxexp "
        "exports, and one product with the joined weights of queries, keys and values, or of gate and up, against separate ones."
    )
    return Table("Contrib operators", note, ("", "ratio"), [(name, _number(ratio, 2)) for name, ratio in ratios.items()])


def _platform(milliseconds: dict[str, float]) -> Table:
    rows = [(name, _number(value, 1)) for name, value in milliseconds.items()]
    note = "Medians in milliseconds. The limits: 50 for the plugins' share, 300 for the command."
    return Table("Cost of plugins", note, ("measurement", "ms"), rows)


def _failures(models: Sequence[ModelResult]) -> Table:
    failed = [
        (model.name, name, tool.reason) for model in models for name, tool in model.tools.items() if tool.reason is not None
    ]
    rows = [(model, tool, " ".join(reason.split())[:300]) for model, tool, reason in failed]
    return Table("Excluded results", "", ("model", "tool", "reason"), rows, numeric=False)


def show(run: Run, console: Console) -> None:
    """Print all tables."""
    for table in tables(run):
        shown = RichTable(title=table.title, title_justify="left", caption=table.note, caption_justify="left", expand=False)
        for number, heading in enumerate(table.header):
            shown.add_column(heading, justify="right" if number and table.numeric else "left")
        for row in table.rows:
            shown.add_row(*(cell.replace("**", "") for cell in row))
        console.print(shown)


def markdown(run: Run) -> str:
    """Return all tables as a Markdown page."""
    machine = ", ".join(f"{name} {value}" for name, value in run.machine.items())
    settings = ", ".join(f"{name} {value}" for name, value in run.settings.items())
    parts = [
        "# Benchmarks",
        "`python -m benchmarks --markdown` prints this page; the docstring of `benchmarks/__init__.py` describes the method. "
        "`dynamo` is `torch.onnx.export(dynamo=True)` and `script` is `torch.onnx.export(dynamo=False)`. "
        "For each model, all ran in one run, on one machine.",
        f"Machine: {machine}. Settings: {settings}.",
    ]
    for table in tables(run):
        lines = [
            _row(table.header),
            _row(["---", *["---:" if table.numeric else "---"] * (len(table.header) - 1)]),
            *(_row(row) for row in table.rows),
        ]
        parts += [f"## {table.title}", *([table.note] if table.note else []), "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
