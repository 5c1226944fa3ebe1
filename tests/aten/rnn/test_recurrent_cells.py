"""rnn/recurrent_cells.py: cells with and without a batch and a bias."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from onnxexp.testing import Case, cases

from .recurrent_layers import BATCH, ENTRY, HIDDEN

pytestmark = pytest.mark.usefixtures("without_onednn")


@cases(
    Case(nn.LSTMCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 13, 20)),
    Case(nn.GRUCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 13, 20)),
    Case(nn.RNNCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.RNNCell(ENTRY, HIDDEN, nonlinearity="relu"), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.LSTMCell(ENTRY, HIDDEN, bias=False), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.GRUCell(ENTRY, HIDDEN, bias=False), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.LSTMCell(ENTRY, HIDDEN), torch.randn(ENTRY), opsets=(9, 20), name="LSTMCell without batch"),
    Case(
        nn.GRUCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), torch.randn(BATCH, HIDDEN), dynamic={0: [0], 1: [0]}, opsets=(20,)
    ),
    Case(
        nn.LSTMCell(ENTRY, HIDDEN).double(), torch.randn(BATCH, ENTRY).double(), dynamic={0: [0]}, opsets=(9, 20), name="double"
    ),
)
def test_cells(check):
    check()
