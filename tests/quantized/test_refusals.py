"""Quantized models that the plugin refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

import onnxexp
from tests.quantized.static_models import Linear, eager


def refused(model: Any, x: Tensor, **options: Any) -> str:
    with pytest.raises(onnxexp.CaptureError) as caught:
        onnxexp.export(model, (x,), **options)
    assert str(caught.value).count("to fix this") == 1
    return str(caught.value)


def test_a_prepared_model() -> None:
    x = torch.randn(6, 12)
    model = Linear().eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    assert "quant.activation_post_process, first.activation_post_process" in refused(quantization.prepare(model), x)
    prepared = quantize_fx.prepare_fx(model, quantization.get_default_qconfig_mapping("fbgemm"), example_inputs=(x,))
    assert "is prepared for quantization and not converted" in refused(prepared, x)


def test_scripting() -> None:
    x = torch.randn(6, 12)
    model = eager(Linear(), x)
    assert "to fix this, use capture='auto'" in refused(model, x, capture="script")
    assert "torch.jit.script keeps its weights packed" in refused(torch.jit.script(model), x, capture="script")


class Unused(nn.Module):
    """A layer whose observer never saw data."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.layer, self.other = quantization.QuantStub(), nn.Linear(4, 4), nn.Linear(4, 4)
        self.dequant, self.both = quantization.DeQuantStub(), True

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(self.quant(x))
        return self.dequant(self.other(x) if self.both else x)


def test_an_observer_without_data() -> None:
    torch.manual_seed(0)
    model = Unused().eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    model.both, x = False, torch.randn(3, 4)
    prepared = quantization.prepare(model)
    prepared(x)
    with pytest.warns(UserWarning, match="must run observer before"):
        converted = quantization.convert(prepared)
    converted.both = True
    assert converted.other.scale == 1
    torch.testing.assert_close(onnxexp.export(converted, (x,), capture="trace")(x), converted(x), rtol=0, atol=0)
