"""Graphs of an exported folder in ONNX Runtime, without any help of onnxexp."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Session:
    """A graph, called with arrays by name; others than its inputs are ignored."""

    def __init__(self, file: Path) -> None:
        self._session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self._shapes = {each.name: each.shape for each in self._session.get_inputs()}

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        names = [each.name for each in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, {name: feeds[name] for name in self._shapes}), strict=True))

    def empty_cache(self, batch: int) -> dict[str, Any]:
        """Return a cache without tokens, in float32."""
        known = {"batch": batch, "past": 0}
        shapes = {name: shape for name, shape in self._shapes.items() if name.startswith("past_key_values.") and "past" in shape}
        return {name: np.zeros([known.get(size, size) for size in shape], np.float32) for name, shape in shapes.items()}


def as_past(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caches of results, by the names of inputs."""
    return {name.replace("present.", "past_key_values."): value for name, value in results.items() if name.startswith("present.")}
