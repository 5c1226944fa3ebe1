"""Measure in the environment that runs this.

python -m tests.compat.measuring versions
python -m tests.compat.measuring conformance --jobs 2
python -m tests.compat.measuring bench

The last line printed is the result, as JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

EVERY = 2
"""The slice has about one of so many operators."""
OPSET = 20
PACKAGES = (
    "torch", "onnx", "onnxruntime", "onnx-ir", "numpy", "pluggy", "onnxscript", "transformers", "torchao", "onnxruntime-genai",
    "onnxruntime-extensions",
)  # fmt: skip
"""The distributions whose versions are recorded."""


def versions() -> dict[str, str]:
    """Return the installed versions of Python and of the recorded distributions."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # the row leaves it out
    return found


def in_slice(operator: str) -> bool:
    """Return whether an operator belongs to the slice.

    The name decides, and not the position, since the operators differ between versions of torch.
    """
    return zlib.crc32(operator.encode()) % EVERY == 0


def conformance(jobs: int) -> dict[str, Any]:
    """Export the slice with both frontends; return the counts, and what does not pass."""
    from tests.conformance import samples
    from tests.conformance.running import Runner, read_results, tasks_of
    from tests.conformance.tables import COUNTED

    names = [name for name in samples.operators() if in_slice(name)]
    pairs = [(name, dtype) for name in names for dtype in samples.dtypes_of(name) if dtype in ("float32", "int64", "bool")]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.jsonl"
        with file.open("w", encoding="utf-8") as out:
            Runner(out, jobs, 60).run(tasks_of(pairs, 2, [OPSET], ["export", "trace"], set()))
        results = [result for result in read_results(file) if result.outcome in COUNTED]
    failing = {f"{each.op} {each.dtype} {each.exporter}: {each.outcome}" for each in results if each.outcome != "pass"}
    passed = sum(result.outcome == "pass" for result in results)
    return {"operators": len(names), "samples": len(results), "passed": passed, "failing": sorted(failing)}


def bench() -> dict[str, Any]:
    """Return the seconds of an export of BERT-base, and of its capture alone."""
    from benchmarks.exporters import ONNXEXP
    from benchmarks.running import Settings, export

    with tempfile.TemporaryDirectory() as folder:
        result = export("bert-base", ONNXEXP, Settings(opset=OPSET, budget=60.0, clock="cpu"), Path(folder), captures=True)
    if result.reason is not None:
        return {"problem": result.reason}
    return {"export": round(result.seconds, 3), "capture": round(result.capture_seconds or 0, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.measuring")
    parser.add_argument("subject", choices=["versions", "conformance", "bench"])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    measured = {"versions": versions, "conformance": lambda: conformance(given.jobs), "bench": bench}[given.subject]()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
