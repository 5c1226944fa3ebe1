"""The mask of the valid steps of padded sequences."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.creation.ranges import arange_of


def valid_steps(op: Builder, steps: Any, lengths: Tensor) -> Tensor:
    """Return the mask (steps, batch) of the valid steps of a time-major batch."""
    time = op.Unsqueeze(arange_of(op, 0, steps, 1, torch.int64), [1])
    return op.Less(time, op.Unsqueeze(lengths, [0]))
