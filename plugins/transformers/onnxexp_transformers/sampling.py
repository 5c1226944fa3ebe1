"""The choice of the next token from its logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxexp import OptionError


class Sampler:
    """Choose the most probable token, or draw one."""

    def __init__(self, temperature: float, top_k: int | None, top_p: float | None, seed: int | None) -> None:
        """Take the options of `TextGenerator.stream`.

        Raises OptionError where they do not fit.
        """
        if temperature < 0:
            raise OptionError(f"temperature is {temperature}; give 0 for the most probable token, or a positive number")
        if temperature == 0 and (top_k, top_p, seed) != (None, None, None):
            raise OptionError("top_k, top_p and seed have no effect at temperature 0: give a temperature, such as 1.0")
        if top_k is not None and top_k < 1:
            raise OptionError(f"top_k is {top_k}; give a number of tokens, at least 1")
        if top_p is not None and not 0 < top_p <= 1:
            raise OptionError(f"top_p is {top_p}; give a probability above 0, at most 1")
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._random = np.random.default_rng(seed)

    def draw(self, logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a token for each row of logits, int64[batch]."""
        if self._temperature == 0:
            return np.asarray(np.argmax(logits, axis=-1))
        scaled = logits.astype(np.float64) / self._temperature
        order = np.argsort(-scaled, axis=-1, kind="stable")
        ranked = np.take_along_axis(scaled, order, axis=-1)
        if self._top_k is not None:
            ranked[:, self._top_k :] = -np.inf
        weights = np.exp(ranked - ranked[:, :1])
        weights /= weights.sum(axis=-1, keepdims=True)
        if self._top_p is not None:
            before = np.cumsum(weights, axis=-1) - weights
            weights[before >= self._top_p] = 0  # the first one stays
        reached = np.cumsum(weights, axis=-1)
        drawn = self._random.random((len(logits), 1)) * reached[:, -1:]
        return np.take_along_axis(order, (reached <= drawn).sum(axis=-1, keepdims=True), axis=-1)[:, 0]
