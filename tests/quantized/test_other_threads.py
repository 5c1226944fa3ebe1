"""Quantized models that another thread runs during an export."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.ao import quantization
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import onnxexp

BESIDE: list[Callable[[], None]] = []


class Beside(torch.nn.Module):
    """A model in whose forward another thread works."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while BESIDE:
            thread = threading.Thread(target=BESIDE.pop())
            thread.start()
            thread.join()
        return x + 1


def static() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    prepared = prepare_fx(model, quantization.get_default_qconfig_mapping("x86"), (torch.ones(2, 4),))
    prepared(torch.ones(2, 4))
    return convert_fx(prepared)  # type: ignore[no-any-return]


def lstm() -> torch.nn.Module:
    return quantization.quantize_dynamic(torch.nn.ModuleDict({"lstm": torch.nn.LSTM(4, 4)}))["lstm"]  # type: ignore[no-any-return]


def functions() -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        x = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize()
        return torch.fake_quantize_per_tensor_affine(x, 0.3, 0, 0, 9)

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("make", [static, lstm, functions])
def test_results_are_those_without_an_export(make: Callable[[], Any], capture: str) -> None:
    torch.manual_seed(0)
    found: list[Any] = []
    model, x = make(), torch.randn(5, 2, 4)
    expected = model(x)
    BESIDE.append(lambda: found.append(model(x)))
    onnxexp.export(Beside(), (torch.ones(3),), capture=capture, check_sizes=False)
    assert len(found) == 1
    torch.testing.assert_close(found[0], expected, rtol=0, atol=0)
