"""Test the figures of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.exporters import ONNXEXP
from benchmarks.results import ModelResult, ToolResult
from benchmarks.targets import best_latency_ratio


def result(own: list[float], **peers: list[float]) -> ModelResult:
    """Return a result with one latency by process."""
    tools = {ONNXEXP: own, **peers}
    return ModelResult("model", {name: ToolResult(latencies=[[each] for each in found]) for name, found in tools.items()})


def test_better_peer() -> None:
    """A peer that is faster in every process is the better one."""
    model = result([1.0, 1.1, 1.0], dynamo=[1.2, 1.2, 1.2], script=[0.8, 1.1, 0.5])
    assert best_latency_ratio(model) == pytest.approx(1.25)


def test_noise_does_not_choose_the_peer() -> None:
    """Each process compares with the peer that the other processes found faster."""
    model = result([1.0, 1.0], dynamo=[0.9, 1.1], script=[1.1, 0.9])
    assert best_latency_ratio(model) == pytest.approx(1 / 1.1)


def test_one_process() -> None:
    assert best_latency_ratio(result([1.0], dynamo=[0.9], script=[1.1])) == pytest.approx(1 / 0.9)


def test_without_peers() -> None:
    assert best_latency_ratio(result([1.0])) is None
