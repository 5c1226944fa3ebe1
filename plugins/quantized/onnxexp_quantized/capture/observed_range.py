"""Scale and zero point of a range that an observer has seen."""

from __future__ import annotations

import torch


def has_seen_data(lowest: torch.Tensor, highest: torch.Tensor) -> bool:
    """Return whether an observer's range is finite and not empty, as after data."""
    return bool(lowest.numel() and torch.isfinite(lowest).all() and torch.isfinite(highest).all())


def fused_parameters(
    lowest: torch.Tensor, highest: torch.Tensor, quant_min: int, quant_max: int, axis: int, per_row: bool, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the parameters that torch.fused_moving_avg_obs_fake_quant computes."""
    channels = lowest.numel() if per_row else 1
    scale, zero_point = torch.ones(channels), torch.zeros(channels, dtype=torch.int32)
    off, on = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    x = torch.zeros([1] * axis + [channels, 1])  # the kernel takes two axes at least
    limits = lowest.detach().cpu().clone(), highest.detach().cpu().clone()
    torch.ops.aten.fused_moving_avg_obs_fake_quant(
        x, off, on, *limits, scale, zero_point, 0.01, quant_min, quant_max, axis, per_row, symmetric
    )
    return scale, zero_point
