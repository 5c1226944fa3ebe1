"""Tensors that a traced forward keeps between calls."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch

import onnxexp
from tests.core.test_kept_tensors import History, Running, Table

X = torch.ones(2, 3)


class Branching(torch.nn.Module):
    """torch.export refuses its branch, so that it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            self.last = self.last + x
        return torch.relu(x + self.last)


def warnings_of(model: Any, capture: str) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onnxexp.export(model, (X,), capture=capture)
    return "\n".join(str(each.message) for each in caught)


def test_a_trace_warns_as_torch_export_does() -> None:
    traced, exported = (warnings_of(Running(), capture) for capture in ("trace", "export"))
    assert traced == exported and traced.count("\n") == 0
    assert re.search(r"self\.total \(File .*, line \d+: self\.total = self\.total \+ x\)", traced)


def test_the_model_stays_as_it_was() -> None:
    model = History()
    seen = model.block.seen
    assert "self.block.seen['all'][0]" in warnings_of(model, "trace")
    assert model.block.seen is seen and seen == {"all": []}


def test_a_trace_in_place_of_torch_export() -> None:
    told = warnings_of(Branching(), "auto")
    assert "torch.export failed, so the model was traced" in told and told.count("the forward keeps tensors between calls") == 1


@pytest.mark.parametrize("model", [Table, lambda: torch.nn.LSTM(3, 4)])
def test_a_tensor_that_is_only_read_is_none(model: Any) -> None:
    assert warnings_of(model(), "trace") == ""


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`:FutureWarning")
@pytest.mark.parametrize("capture", ["trace", "export"])
@pytest.mark.parametrize("norm", [torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm])
def test_a_weight_that_each_call_computes_is_none(norm: Any, capture: str) -> None:
    model = torch.nn.Sequential(norm(torch.nn.Linear(3, 4))).eval()
    assert warnings_of(model, capture) == ""
