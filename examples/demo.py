"""Export a ResNet-18, run it at two batch sizes, and print a summary.

python -m examples.demo [--opset N] [--size PIXELS] [FILE]
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from torch import nn

import onnxexp
from tests.models.classic_vision import ResNet, calibrated

BATCHES = (1, 5)
TOLERANCE = 1e-4
"""The largest accepted error relative to the largest output: float32 sums in another order."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The results at one batch size.

    Attributes:
        batch: The batch size.
        error: The largest difference from eager.
        relative: The same, divided by the largest output.
        ort_time, eager_time: Median seconds of a run.
    """

    batch: int
    error: float
    relative: float
    ort_time: float
    eager_time: float


def compare(program: onnxexp.ONNXProgram, model: nn.Module, images: torch.Tensor) -> Comparison:
    """Run the program and the model on the same images."""
    with torch.inference_mode():
        expected, eager_time = timed(lambda: model(images))
    actual, ort_time = timed(lambda: program(images))
    error = (actual - expected).abs().max().item()
    return Comparison(len(images), error, error / expected.abs().max().item(), ort_time, eager_time)


def timed(function: Callable[[], torch.Tensor], repeat: int = 5) -> tuple[torch.Tensor, float]:
    """Return a function's result, and its median time in seconds after a warm-up run."""
    result, times = function(), []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def stages(timings: dict[str, float]) -> Table:
    """Build the table of the export's stages."""
    total = sum(timings.values())
    table = Table("stage", "", box=None, title="Export", title_justify="left", title_style="bold")
    table.add_column("ms", justify="right")
    for stage, seconds in timings.items():
        bar = ProgressBar(total=total, completed=seconds, width=24, complete_style="cyan", finished_style="cyan")
        table.add_row(stage, bar, f"{seconds * 1000:.0f}")
    table.add_row("[bold]all", "", f"[bold]{total * 1000:.0f}")
    return table


def operators(program: onnxexp.ONNXProgram) -> Table:
    """Build the table of the graph's operators."""
    counts = collections.Counter(node.op_type for node in program.model.graph)
    table = Table("operator", box=None, title=f"{counts.total()} nodes", title_justify="left", title_style="bold")
    table.add_column("", justify="right")
    for name, count in counts.most_common():
        table.add_row(name, str(count))
    return table


def agreement(comparisons: Iterable[Comparison]) -> Table:
    """Build the table that compares ONNX Runtime with eager."""
    table = Table(box=None, title="ONNX Runtime and eager PyTorch", title_justify="left", title_style="bold")
    for heading in ("batch", "largest error", "of the output", "ONNX Runtime", "eager"):
        table.add_column(heading, justify="right")
    for row in comparisons:
        times = (f"{row.ort_time * 1000:.1f} ms", f"{row.eager_time * 1000:.1f} ms")
        mark = "green" if row.relative <= TOLERANCE else "bold red"
        table.add_row(str(row.batch), f"[{mark}]{row.error:.1e}", f"[{mark}]{row.relative:.1e}", *times)
    return table


def closing(path: Path, opset: int) -> Table:
    """Build the closing lines: the file, and next steps."""
    data = path.with_name(path.name + ".data")
    size = sum(file.stat().st_size for file in (path, data) if file.exists())
    table = Table.grid(padding=(0, 2))
    table.add_row("[bold]The file", Text(f"{path}\n{size / 1e6:.1f} MB, opset {opset}"))
    table.add_row("[bold]Try next", "make demo ARGS='--opset 11'   for an old runtime")
    table.add_row("", "print(program)                the graph, node by node")
    table.add_row("", "README.md                     your own model or operator")
    return table


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="resnet18.onnx", type=Path, help="where to write (resnet18.onnx)")
    parser.add_argument("--opset", type=int, default=20, help="9 to 28 (20)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images in pixels (224)")
    return parser.parse_args()


def main() -> int:
    """Export and compare, and return 1 if ONNX Runtime and eager disagree."""
    options = arguments()
    console = Console(highlight=False)
    torch.manual_seed(0)
    model = calibrated(lambda: ResNet((2, 2, 2, 2), bottleneck=False), (4, 3, 64, 64))().eval()
    weights = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"Exporting a ResNet-18, {weights / 1e6:.1f} million weights, with a dynamic batch ...")

    images = torch.randn(max(BATCHES), 3, options.size, options.size)
    program = onnxexp.export(
        model, (images[:2],), options.file, opset_version=options.opset, dynamic_shapes={"image": {0: "batch"}}
    )
    comparisons = [compare(program, model, images[:batch]) for batch in BATCHES]

    body = Group(
        Columns([stages(program.timings), operators(program)], padding=(0, 6)),
        "",
        agreement(comparisons),
        "",
        closing(options.file.resolve(), options.opset),
    )
    console.print(Panel(body, title=f"onnxexp {onnxexp.__version__}", title_align="left", padding=(1, 2), expand=False))
    return int(any(row.relative > TOLERANCE for row in comparisons))


if __name__ == "__main__":
    sys.exit(main())
