"""nn/activation.py: softmax along any axis, also before opset 13."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)
X = torch.randn(3, 4, 5)


def softmaxes(x):
    return x.softmax(-1), x.softmax(1), x.softmax(0), x.log_softmax(2), x.log_softmax(0), F.softmin(x, 1)


def converted(x):
    return x.softmax(-1, dtype=torch.float32), x.log_softmax(1, dtype=torch.float64), x.softmax(0, dtype=torch.float64)


@cases(
    Case(softmaxes, X, dynamic={0: [0, 2]}),
    Case(softmaxes, X.double(), name="double"),
    Case(softmaxes, X.half(), rtol=2e-3, atol=2e-3, name="half"),
    Case(converted, X),
    Case(converted, X.half(), rtol=2e-3, atol=2e-3, name="converted half"),
    Case(lambda x: (x.softmax(0), x.log_softmax(-1)), torch.tensor(3.0), name="0-d"),
    Case(lambda x: x.softmax(0, dtype=torch.float32), torch.arange(4), name="ints"),
    Case(lambda x: x.softmax(1), X, emits={"Softmax"}, name="one node"),
)
def test_softmax(check):
    check()


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_the_last_axis_needs_no_transpose(opset):
    check_case(Case(lambda x: x.softmax(-1), X, opsets=(opset,), emits={"Softmax"}), opset)
