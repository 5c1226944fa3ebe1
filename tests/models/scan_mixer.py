"""Mamba's selective scan as one `scan` operator, not a loop that Python unrolls.

The mixer of `transformers` loops over the sequence in Python (its associative scan is switched off while exporting), so
torch.export fixes the length of the example. `ScanMixer` computes the same by torch's `scan`: one loop over any length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional
from transformers.models.mamba.modeling_mamba import MambaMixer


class ScanMixer(MambaMixer):
    """A MambaMixer without a cache; outside of export it runs that class's code."""

    def forward(self, hidden_states: torch.Tensor, *, attention_mask: torch.Tensor | None = None, **cache: Any) -> torch.Tensor:
        """Map (batch, sequence, hidden) to the same shape."""
        if not torch.compiler.is_exporting():
            return super().forward(hidden_states, attention_mask=attention_mask, **cache)
        kept = 1 if attention_mask is None else attention_mask[:, :, None]
        x, gate = self.in_proj(hidden_states * kept).transpose(1, 2).chunk(2, dim=1)
        x = self.act(self.conv1d(x)[:, :, : hidden_states.shape[1]]).transpose(1, 2) * kept
        step, b, c = self.x_proj(x).split([self.time_step_rank, self.ssm_state_size, self.ssm_state_size], dim=-1)
        step = functional.softplus(self.dt_proj(step))
        decay = torch.exp(step[..., None] * -torch.exp(self.A_log))
        drive = (step * x)[..., None] * b[:, :, None, :]
        _, y = scan(advance, torch.zeros_like(drive[:, 0]), (decay, drive, c), dim=1)
        return self.out_proj((y + x * self.D) * self.act(gate.transpose(1, 2)))


def advance(state: torch.Tensor, at: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Advance the state (batch, channels, size); the output is (batch, channels)."""
    decay, drive, c = at
    state = decay * state + drive
    return state, (state * c[:, None, :]).sum(-1)


def with_scan(model: nn.Module) -> nn.Module:
    """Make each mixer of the model a `ScanMixer`; the weights stay."""
    for module in model.modules():
        if isinstance(module, MambaMixer):
            module.__class__ = ScanMixer
    return model
