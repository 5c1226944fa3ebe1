"""The report on a quantized model: what ran as integers, times and errors."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxexp import OptionError
from onnxexp.commands import OutputFile, Progress
from onnxexp_quantization_report import example_feeds, measured_run
from onnxexp_quantization_report.layer_errors import Comparison, compare, float_model
from onnxexp_quantization_report.layers import FLOAT, INTEGER, STATES, Layer, layers
from onnxexp_quantization_report.model_file import load


@dataclasses.dataclass(frozen=True)
class Report:
    """How ONNX Runtime ran a model.

    Attributes:
        file: The file's name.
        against: The float model's name; "" if there is none.
        onnxruntime: The version of ONNX Runtime.
        shapes: The inputs' shapes.
        layers: The layers in order.
        operators: The time of a run in seconds by operator, the longest first.
        comparison: The errors of the model's outputs; None if there is no float model.
    """

    file: str
    against: str
    onnxruntime: str
    shapes: dict[str, list[int]]
    layers: list[Layer]
    operators: dict[str, float]
    comparison: Comparison | None

    @property
    def fallen_back(self) -> list[Layer]:
        """The layers that ran in float."""
        return [layer for layer in self.layers if layer.state == FLOAT]

    def fallen_back_by_code(self) -> list[list[Layer]]:
        """Group the layers that fell back by their reasons."""
        codes = dict.fromkeys(layer.code for layer in self.fallen_back)
        return [[layer for layer in self.fallen_back if layer.code == code] for code in codes]

    @property
    def seconds(self) -> float:
        """The time of a run: the sum over the nodes."""
        return sum(self.operators.values())

    def share(self, layer: Layer) -> str:
        """Return a layer's share of the time, as text."""
        return "" if layer.seconds is None or not self.seconds else f"{100 * layer.seconds / self.seconds:.1f} %"

    def decibels(self, layer: Layer) -> str:
        """Return a layer's signal to noise ratio, as text."""
        if layer.sqnr is None:
            return "exact" if layer.max_error == 0 else ""
        return f"{layer.sqnr:.1f} dB"

    def error(self, layer: Layer) -> str:
        """Return a layer's largest error, as text."""
        return "" if layer.max_error is None else f"{layer.max_error:.3g}"

    def times(self) -> str:
        """Return the operators that take the most time."""
        longest = list(self.operators.items())[:6]
        shares = [f"{name} {100 * seconds / self.seconds:.0f} %" for name, seconds in longest]
        return f"{1e3 * self.seconds:.3f} ms, {', '.join(shares)}"

    def fixes(self) -> Iterator[str]:
        """Yield a line for each reason why layers fell back, with its fix."""
        for group in self.fallen_back_by_code():
            names = ", ".join(layer.name for layer in group[:3]) + (", …" if len(group) > 3 else "")
            yield f"{names}: {group[0].fix}"

    def summary(self) -> Iterator[str]:
        """Count the layers by state, and summarize the errors, in a few lines."""
        counted = Counter(layer.state for layer in self.layers)
        number = len(self.layers)
        others = [
            f", {counted[state]} {meaning.partition(':')[0]}"
            for state, meaning in STATES.items()
            if counted[state] and state != INTEGER
        ]
        yield f"{counted[INTEGER]} of {number} layer{'' if number == 1 else 's'} ran as integers{''.join(others)}"
        if self.comparison is not None:
            yield from self.comparison.lines()

    def document(self) -> dict[str, Any]:
        """Return the report for JSON."""
        fields = [field.name for field in dataclasses.fields(Layer) if field.name != "node"]
        return {
            "file": self.file,
            "against": self.against or None,
            "onnxruntime": self.onnxruntime,
            "inputs": self.shapes,
            "ok": not self.fallen_back,
            "seconds": self.seconds,
            "operators": self.operators,
            "layers": [{name: getattr(layer, name) for name in fields} for layer in self.layers],  # all fields but the node
            "outputs": self.comparison.document() if self.comparison is not None else [],
        }


def make(options: argparse.Namespace, folder: Path, progress: Progress) -> Report:
    """Make the report that the command line describes; `folder` is for interim files.

    Raises:
        OptionError: A file is missing or unreadable, or the inputs do not fit.
        SerializeError: The page cannot be written.
        OnnxExporterError: ONNX Runtime is not installed or refuses a model.
    """
    if options.runs < 1:
        raise OptionError(f"--runs {options.runs}: expected at least 1")
    if options.threads < 0:
        raise OptionError(f"--threads {options.threads}: expected at least 1, or 0 for as many as ONNX Runtime takes")
    sizes = example_feeds.read_sizes(options.sizes)
    if options.input is not None and sizes:
        raise OptionError("--sizes is for random inputs: give either --sizes or --input")
    if options.html is not None:
        OutputFile(options.html).check()  # rather now than after the runs
    progress.stage(f"loading {options.file}")
    file = load(options.file)
    feeds = example_feeds.from_file(file.model, options.input) if options.input else example_feeds.random_feeds(file.model, sizes)
    progress.stage(f"running {options.file}")
    measured = measured_run.run(file, feeds, options.runs, folder, options.threads)
    model_layers = layers(file, measured.graph)
    measured_run.time_layers(model_layers, measured)
    comparison = None
    if options.against:
        progress.stage(f"loading {options.against}")
        other = float_model(options.against, file)
        progress.stage(f"comparing with {options.against}")
        comparison = compare(file, model_layers, other, feeds, options.threads)
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    from onnxruntime import __version__ as version  # after the run, which reports a missing ONNX Runtime

    return Report(str(options.file), options.against or "", version, shapes, model_layers, measured.operators, comparison)
