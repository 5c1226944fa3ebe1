"""nn/dropout.py: the identity in evaluation; documented shares in training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4, 5)
ONES = torch.ones(40, 50, 10)


def evaluated(x):
    return (
        F.dropout(x, 0.5, False),
        F.alpha_dropout(x, 0.5, False),
        F.feature_alpha_dropout(x, 0.5, False),
        F.dropout1d(x, 0.5, False),
    )


@cases(Case(lambda x: F.dropout(x, 0.5, False) + 1, X, emits={"Add"}, name="dropout"), Case(evaluated, X, dynamic={0: [0]}))
def test_nothing_when_evaluating(check):
    check()


class Trained(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


def outcome(fn, opset):
    program = onnxexp.export(Trained(fn), (ONES,), opset_version=opset, training=onnxexp.TrainingMode.TRAINING)
    return program(ONES)


@pytest.mark.parametrize("opset", [9, 11, 12, 13, 20, 23])
def test_dropout_in_training(opset):
    result = outcome(lambda x: F.dropout(x, 0.25, True), opset)
    torch.testing.assert_close(result.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert abs((result == 0).float().mean() - 0.25) < 0.03


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_whole_channels_are_dropped(opset):
    result = outcome(lambda x: F.dropout1d(x, 0.25, True), opset)
    assert bool((result == result[:, :, :1]).all())
    assert abs((result == 0).float().mean() - 0.25) < 0.05


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_alpha_dropout_keeps_mean_and_variance(opset):
    noise = torch.randn(50, 50, 20)
    model = Trained(lambda x: F.alpha_dropout(x, 0.3, True))
    program = onnxexp.export(model, (noise,), opset_version=opset, training=onnxexp.TrainingMode.TRAINING)
    result = program(noise)
    assert abs(result.mean()) < 0.05
    assert abs(result.std() - 1) < 0.05


@pytest.mark.parametrize("opset", [9, 13])
def test_everything_is_dropped(opset):
    assert bool((outcome(lambda x: F.dropout(x, 1.0, True), opset) == 0).all())
