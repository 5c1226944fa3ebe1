"""Run a model in eager torch, or skip the test where this processor cannot."""

from __future__ import annotations

from typing import Any

import pytest
import torch

_NO_KERNEL = "could not create a primitive"
"""How oneDNN refuses a dtype that the processor has no instructions for."""


def run_eager(model: torch.nn.Module, *args: Any) -> Any:
    """Run ``model(*args)``; skip the test if oneDNN has no kernel for this processor."""
    try:
        return model(*args)
    except RuntimeError as error:
        if not str(error).startswith(_NO_KERNEL):
            raise
        capability = torch.backends.cpu.get_cpu_capability()
        pytest.skip(f"eager torch cannot run this model on a processor with {capability}: {str(error).partition('.')[0]}")
