"""Compare onnxexp with torch.onnx: export time, memory, file size and latency."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from . import bridge, checking, contrib_operators, decoding, diff, models, platform_cost, running, tables
from .large_models import LARGE
from .results import Run

RESULTS = Path("bench-results")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small models, few repeats")
    parser.add_argument("--models", metavar="A,B", help="only these models")
    parser.add_argument("--quantized", action="store_true", help="only the quantized models; a full run has them too")
    parser.add_argument("--bridge", action="store_true", help="only what the torch bridge costs; a full run has it too")
    parser.add_argument("--checking", action="store_true", help="only what checks and reports cost; a full run has it too")
    parser.add_argument("--large", action="store_true", help="only models of 1 and 7 billion parameters; needs 30 GB of disk")
    parser.add_argument("--decoding", action="store_true", help="only tokens per second of a Llama; a full run has them too")
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    parser.add_argument("--diff", metavar="MODEL", help="only print the operators of one model's files side by side")
    parser.add_argument("--from", dest="source", type=Path, metavar="JSON", help="show an earlier run instead of a new one")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to FILE, as Markdown")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help="folder of the results (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the exported files in DIR/files")
    settings = parser.add_argument_group("settings (defaults are those of the full mode)")
    for field in dataclasses.fields(running.Settings):
        kind = type(field.default)
        settings.add_argument(f"--{field.name}", type=kind, metavar=kind.__name__, help=f"default: {field.default}")
    return parser


def _settings(options: argparse.Namespace) -> running.Settings:
    base = running.QUICK if options.quick else running.Settings()
    overrides = {field.name: getattr(options, field.name) for field in dataclasses.fields(running.Settings)}
    return dataclasses.replace(base, **{name: value for name, value in overrides.items() if value is not None})


def _measure(options: argparse.Namespace, console: Console) -> Run:
    """Measure a new run, and save the results after each model."""
    settings = _settings(options)
    run = Run(running.machine(), dataclasses.asdict(settings), [])
    part = any([options.quantized, options.bridge, options.checking, options.large, options.decoding])
    names = [] if part else models.chosen(options.models, options.quick)
    full = not options.quick and not part and options.models is None
    target = options.out / ("full.json" if full else "quick.json" if options.quick else "some.json")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out) as scratch:
        root = options.out / "files" if options.keep else Path(scratch)
        for name in names:
            folder = (root / name).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            run.models.append(running.measure(name, settings, folder, lambda text: console.print(f"[dim]{text}")))
            run.save(target)
            if not options.keep:
                running.clean(folder)
    if full or options.quantized:
        run.quantized = running.measure_quantized(settings, lambda text: console.print(f"[dim]{text}"))
    if full or options.bridge:
        run.bridge = bridge.measure()
    if full or options.checking:
        run.checking = checking.measure(lambda text: console.print(f"[dim]{text}"))
    if options.large:
        chosen = options.models.split(",") if options.models else list(LARGE)
        run.large = running.measure_large(chosen, settings, options.out.resolve(), lambda text: console.print(f"[dim]{text}"))
    if full or options.decoding:
        run.contrib_operators = contrib_operators.measure()
        run.decoding, run.decoding_shares = decoding.measure(lambda text: console.print(f"[dim]{text}"))
    if not part:
        run.platform = platform_cost.measure()
    run.save(target)
    console.print(f"Figures: {target}")
    return run


def main() -> None:
    """Run the command line."""
    options = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    if options.list:
        console.print("\n".join(models.CASES))
    elif options.diff:
        (name,) = models.chosen(options.diff, quick=False)
        with tempfile.TemporaryDirectory() as folder:
            diff.show(name, dataclasses.replace(_settings(options), repeats=0), Path(folder), console)
    else:
        run = Run.load(options.source) if options.source else _measure(options, console)
        tables.show(run, console)
        if options.markdown:
            options.markdown.parent.mkdir(parents=True, exist_ok=True)
            options.markdown.write_text(tables.markdown(run))


if __name__ == "__main__":
    main()
