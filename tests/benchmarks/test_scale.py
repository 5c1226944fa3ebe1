"""The calculation of what larger models need."""

from __future__ import annotations

import pytest

from benchmarks.large import LargeResult
from benchmarks.scale import MEASURED, needs

REFERENCE = {"parameters": 7, "weights": 14e9, "largest": 200e6, "nodes": 2000, "seconds": 6.0, "memory": 50e6}
LARGER = {"parameters": 70, "weights": 140e9, "largest": 500e6, "nodes": 6000, "seconds": 20.0, "memory": 150e6}


def test_weights_grow_with_bytes_and_memory_with_the_largest() -> None:
    stages = {"capture": 5.0, "lower": 2.0, "write": 13.5}
    measured = LargeResult(MEASURED, "onnxexp", weights=14 * 10**9, seconds=21.0, stages=stages, growth=650 * 10**6)
    found = needs(LARGER, REFERENCE, measured)
    assert (found.graph_time, found.graph_memory, found.nodes) == (20.0, 150e6, 6000), "as they were measured"
    assert found.weights_time == pytest.approx(10 * (21 - 7)), "what is not in the other stages, for ten times the bytes"
    assert found.weights_memory == pytest.approx(3 * 500e6), "three times the largest, as in the measured export"
    assert found.disk == 280e9
    same = needs(REFERENCE, REFERENCE, measured)
    assert same.graph_memory + same.weights_memory == pytest.approx(measured.growth)
