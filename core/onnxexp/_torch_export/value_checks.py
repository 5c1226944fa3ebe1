"""Checks of values in a forward, which torch.export takes for branches.

``assert (x >= 0).all()`` and ``if x.isnan().any(): raise ...`` have passed for the example. A trace goes on after them as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from onnxexp._capture.source_lines import frames_below_export, user_line_above
from onnxexp._source_location import is_handled, is_user_code, passing_truth


def _truth(original: Callable[..., bool], self: torch.Tensor) -> bool:
    """Return the truth with which a check passes, if the tensor is a part of one.

    The example may fail in a check whose error the model handles: such a check is a branch.
    """
    known = isinstance(self, FakeTensor) and self.constant is not None
    passing = None if known else passing_truth(*user_line_above(sys._getframe()))
    handled = passing is not None and any(
        is_user_code(frame.f_code.co_filename) and is_handled(frame.f_code.co_filename, frame.f_lineno)
        for frame in frames_below_export(sys._getframe())
    )
    return original(self) if passing is None or handled else passing


VALUE_CHECKS: list[tuple[Any, str, Callable[..., Any]]] = [(torch.Tensor, "__bool__", _truth)]
"""The replacement, as (owner, attribute, function)."""
