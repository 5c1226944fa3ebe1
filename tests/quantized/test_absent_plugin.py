"""The errors for quantized models without the plugin: they name it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.ao import quantization

import onnxexp
from onnxexp._plugins import discovery


def model() -> nn.Module:
    return quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})


@pytest.mark.parametrize("capture", ["auto", "export", "trace"])
def test_the_plugin_is_switched_off(capture: str) -> None:
    with pytest.raises(onnxexp.CaptureError) as raised:
        onnxexp.export(model(), (torch.randn(2, 4),), capture=capture, without=["quantized"])
    assert str(raised.value).splitlines()[-1].startswith("the plugin 'quantized' (onnxexp-plugin-quantized ")
    assert "installed but off: disabled by the call" in str(raised.value)


def test_the_plugin_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    others = tuple(plugin for plugin in discovery.discover() if plugin.name != "quantized")
    monkeypatch.setattr(discovery, "discover", lambda *group: others)
    with pytest.raises(onnxexp.CaptureError) as raised:
        onnxexp.export(model(), (torch.randn(2, 4),))
    fix = "`pip install onnxexp-plugin-quantized` brings the operators of quantized::"
    assert str(raised.value).splitlines()[-1] == fix


@pytest.mark.parametrize("capture", ["auto", "export", "trace"])
def test_fake_quantization_names_it(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).train()
    layers.qconfig = quantization.get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
    trained = quantization.prepare_qat(layers)
    x = torch.randn(2, 4)
    trained(x)
    trained.eval().apply(quantization.disable_observer)
    others = tuple(plugin for plugin in discovery.discover() if plugin.name != "quantized")
    monkeypatch.setattr(discovery, "discover", lambda *group: others)
    with pytest.raises(onnxexp.OnnxExporterError, match="`pip install onnxexp-plugin-quantized` brings aten::"):
        onnxexp.export(trained, (x,), capture=capture)


def test_decomposed_operators_name_it() -> None:
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers the operators

    def quantize(x: torch.Tensor) -> Any:
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)

    with pytest.raises(onnxexp.UnsupportedOperators, match="the plugin 'quantized' .* is installed but off"):
        onnxexp.export(quantize, (torch.randn(2, 4),), without=["quantized"], capture="export")
