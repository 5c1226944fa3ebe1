"""Models for the tests of sweeps: one that works, and ones that fail in each way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import torch
from torch import nn


def tiny() -> dict[str, Any]:
    """Build two layers with a dynamic batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    return {"model": model, "args": (torch.randn(3, 8),), "dynamic_shapes": ({0: "batch"},)}


class Masked(nn.Module):
    """Multiply two parts of a sequence by a mask over both."""

    def forward(self, past: torch.Tensor, new: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([past, new]) * mask


def masked() -> dict[str, Any]:
    """Build a model with an axis that is the sum of two others."""
    shapes = ({0: "past"}, {0: "new"}, {0: "past + new"})
    return {"model": Masked(), "args": (torch.arange(5.0), torch.ones(3), torch.ones(8)), "dynamic_shapes": shapes}


class Frozen(nn.Module):
    """A trace keeps the example's size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + float(x.sum())


def wrong() -> Any:
    """Build a model whose trace keeps the example's sum, so that other inputs differ."""
    return Frozen(), (torch.arange(4.0),)


def raises() -> Any:
    """Raise in the factory."""
    raise KeyError("no such weights")


def crashes() -> Any:
    """End by a signal, after a line on standard error."""
    print("about to crash", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
    return None


def exits() -> Any:
    """End without a result."""
    os._exit(3)


def hangs() -> Any:
    """Start a child, and wait for longer than any limit."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("child", child.pid, flush=True)
    time.sleep(600)


def eats() -> Any:
    """Allocate memory endlessly, in steps of 100 MB."""
    kept = []
    while True:
        kept.append(torch.ones(25_000_000))
        time.sleep(0.02)


def threads() -> Any:
    """Raise, with the threads of torch and the modules in which a test is interested."""
    raise RuntimeError(f"threads: {torch.get_num_threads()}, wave: {'wave' in sys.modules}")


def slow() -> Any:
    """Work after a second, so that a test can kill a worker meanwhile."""
    time.sleep(1)
    return tiny()
