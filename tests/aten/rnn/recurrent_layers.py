"""Recurrent layers for the tests of this folder."""

from __future__ import annotations

import collections
import functools

import torch
from torch import nn

TIME, BATCH, ENTRY, HIDDEN = 5, 3, 6, 4
KINDS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN": nn.RNN,
    "relu": functools.partial(nn.RNN, nonlinearity="relu"),
    "projected": functools.partial(nn.LSTM, proj_size=3),
}
FLAGS = (False, True)


def layer(kind, layers=1, **options):
    torch.manual_seed(0)
    return KINDS[kind](ENTRY, HIDDEN, layers, **options).eval()


def entry(model, batch=BATCH):
    torch.manual_seed(1)
    return torch.randn(batch, TIME, ENTRY) if model.batch_first else torch.randn(TIME, batch, ENTRY)


def state(model, *batch):
    """Draw an initial state: one tensor, or the two of an LSTM."""
    torch.manual_seed(2)
    count = model.num_layers * (2 if model.bidirectional else 1)
    widths = [model.proj_size or HIDDEN, *([HIDDEN] if model.mode == "LSTM" else [])]
    return tuple(torch.randn(count, *batch, width) for width in widths)


class FromState(nn.Module):
    """A layer that starts from a given state."""

    def __init__(self, model):
        super().__init__()
        self.layer = model

    def forward(self, x, h):
        return self.layer(x, h)


class FromBoth(FromState):
    def forward(self, x, h, c):
        return self.layer(x, (h, c))


def from_state(model):
    return FromBoth(model) if model.mode == "LSTM" else FromState(model)


def counts(program):
    return collections.Counter(node.op_type for node in program.model.graph)
