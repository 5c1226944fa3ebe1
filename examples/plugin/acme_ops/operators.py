"""The operators, as PyTorch runs them."""

from __future__ import annotations

import torch


@torch.library.custom_op("acme_ops::snake", mutates_args=())
def snake(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """Compute x + sin(alpha * x)^2 / alpha, an activation for periodic signals."""
    return x + torch.sin(alpha * x).square() / alpha


@snake.register_fake
def _(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("acme_ops::gated", mutates_args=())
def gated(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute x * gelu(gate) elementwise, for tensors of the same shape."""
    return x * torch.nn.functional.gelu(gate)


@gated.register_fake
def _(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)
