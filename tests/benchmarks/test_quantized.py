"""Test the verdicts on quantized models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quantized import QuantizedResult
from benchmarks.quantized_models import QUANTIZED
from benchmarks.results import Run
from benchmarks.tables import markdown


def result(latency: float, *, file: float = 25.0, error: float = 0.01) -> QuantizedResult:
    own = {"file": file, "latency": latency, "error": error}
    others = {"dynamo": {"reason": "refused"}, "script": {"file": 25, "latency": 0.5, "error": 0.01}}
    return QuantizedResult("resnet18, int8", {"float": {"file": 100, "latency": 1.0}, "onnxexp": own, **others})


def test_targets() -> None:
    assert result(0.5).misses == []
    assert result(0.7).misses == ["latency ÷ float 0.7 > 0.6", "latency ÷ better 1.4 > 1.03"]
    assert result(0.5, file=30).misses == ["file ÷ float 0.3 > 0.27"]
    assert result(0.5, error=0.2).misses == ["error 0.2 > 0.05"]


def test_a_refused_model_is_missed() -> None:
    refused = QuantizedResult("resnet18, int8", {"float": {"file": 100, "latency": 1.0}, "onnxexp": {"reason": "CaptureError"}})
    assert refused.misses == ["CaptureError"]
    assert refused.latency_over_best is None


def test_tables(tmp_path: Path) -> None:
    run = Run({}, {}, [], {}, [result(0.5), QuantizedResult("linear, int4 groups", reason="torchao is not installed")])
    run.save(tmp_path / "run.json")
    page = markdown(Run.load(tmp_path / "run.json"))
    assert "| resnet18, int8 | 1,000.000 | 500.000 | – | 500.000 | 0.500 | 1.000 | 0.250 | 0.010 | none |" in page
    assert "torchao is not installed" in page


@pytest.mark.parametrize("name", ["linear, int8", "linear, int8 dynamic"])
def test_models_are_the_same_at_each_call(name: str) -> None:
    (_, first, x), (_, second, _) = QUANTIZED[name].make(), QUANTIZED[name].make()
    assert first(x).equal(second(x))
