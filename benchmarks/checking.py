"""The cost of checking an export: `find_mismatch`, and the report page.

A call that locates a fault may take twice the time of an export, one eager and one ONNX run together. A page may have 5 MB, and
take two seconds to open and a fifth of the export's time to write. torch.onnx is no peer: it has neither.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import onnxexp

from . import models
from .memory import growth

NAMES = {"resnet50": "relu", "bert-base": "gelu", "llama-110m": "silu"}
"""The models, and the operator of each whose symbolic gets a fault: it computes the absolute value."""
CHUNK = 128 << 20
"""The `chunk_bytes` of the measured calls."""
_ROUNDS = 3

LIMITS = {
    "find_mismatch ÷ (export + eager + ONNX run)": 2.0,
    "the same, of a model with a fault": 2.0,
    "memory ÷ chunk_bytes": 5.0,
    "the page, MB": 5.0,
    "export with a report ÷ without": 1.2,
    "seconds to open the page": 2.0,
}
"""The largest accepted value of each figure."""


def measure(progress: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Measure the figures of `LIMITS` for each model.

    Without Chromium, the figure of the opened page is left out.
    """
    found = {}
    for name in NAMES:
        progress(f"{name}: checking")
        found[name] = _figures(name)
    return found


def _figures(name: str) -> dict[str, float]:
    torch.set_num_threads(1)
    case = models.CASES[name]
    model, inputs = case.make(), case.inputs(case.example)
    figures: dict[str, list[float]] = {key: [] for key in LIMITS}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page, file = Path(folder) / "report.html", Path(folder) / "model.onnx"
        onnxexp.export(model, inputs, file, dynamic_shapes=case.axes)  # imports and registries do not count
        faulty = onnxexp.export(model, inputs, dynamic_shapes=case.axes, plugins=[_fault(NAMES[name]), ...])
        for _ in range(_ROUNDS):
            export, program = _timed(lambda: onnxexp.export(model, inputs, file, dynamic_shapes=case.axes))
            eager, _ = _timed(lambda: _eager(model, inputs))
            run, _ = _timed(lambda program=program: program(*inputs))
            (find, report), memory = growth(lambda program=program: _timed(lambda: program.find_mismatch(chunk_bytes=CHUNK)))
            located, fault = _timed(faulty.find_mismatch)
            if not report.ok or fault.first is None or fault.first.op.split(".")[0] != f"aten::{NAMES[name]}":
                raise SystemExit(f"{name}: {report}\n{fault}")
            write, _ = _timed(lambda program=program: program.report(page))
            together = export + eager + run
            costs = find / together, located / together, memory / CHUNK
            for key, value in zip(LIMITS, (*costs, page.stat().st_size / 1e6, 1 + write / export, _open(page)), strict=True):
                figures[key].append(value)
    return {key: statistics.median(values) for key, values in figures.items() if None not in values}


def _fault(operator: str) -> onnxexp.SymbolicTable:
    table = onnxexp.SymbolicTable("aten", override=True)

    @table(operator)
    def absolute(op: onnxexp.Builder, x: onnxexp.Tensor, *rest: Any) -> Any:
        return op.Abs(x)

    return table


def _eager(model: torch.nn.Module, inputs: Any) -> Any:
    with torch.no_grad():
        return model(*inputs)


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def _open(page: Path) -> Any:
    """Return the seconds until a new browser page is ready, or None without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium: the page is not opened", file=sys.stderr)
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page()
        start = time.perf_counter()
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-ready]")
        seconds = time.perf_counter() - start
        browser.close()
    return seconds
