"""Checks of values in a forward, which torch.export takes for branches.

``assert (x >= 0).all()`` and ``if x.isnan().any(): raise ...`` have passed for the example. A trace goes on after them as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from onnxexp._capture.source_lines import user_line_above
from onnxexp._source_location import passing_truth


def _truth(original: Callable[..., bool], self: torch.Tensor) -> bool:
    """Return the truth of a tensor, in a check that with which it passes."""
    known = getattr(self, "constant", None) is not None  # a fake tensor of torch's may have its value
    passing = None if known else passing_truth(*user_line_above(sys._getframe()))
    return original(self) if passing is None else passing


VALUE_CHECKS: list[tuple[Any, str, Callable[..., Any]]] = [(torch.Tensor, "__bool__", _truth)]
"""The replacement, as (owner, attribute, function)."""
