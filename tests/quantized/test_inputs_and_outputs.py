"""Models whose inputs or outputs are quantized tensors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import quantize_fx
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig

import onnxexp
from tests.quantized import static_models


class Sum(nn.Module):
    """A convolution, and a sum with the second input: quantized outside and inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.sum = nn.Conv2d(3, 4, 3), FloatFunctional()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = self.sum.add(self.first(x), y)
        return result


def inputs(batch: int = 2, x_scale: float = 0.03) -> tuple[Tensor, Tensor]:
    x = torch.quantize_per_tensor(torch.randn(batch, 3, 8, 8), x_scale, 120, torch.quint8)
    return x, torch.quantize_per_tensor(torch.randn(batch, 4, 6, 6), 0.04, 128, torch.quint8)


def eager() -> nn.Module:
    model = Sum().eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(*(each.dequantize() for each in inputs()))
    return quantization.convert(prepared)


def fx() -> nn.Module:
    places = PrepareCustomConfig().set_input_quantized_indexes([0, 1]).set_output_quantized_indexes([0])
    mapping = quantization.get_default_qconfig_mapping("fbgemm")
    example = tuple(each.dequantize() for each in inputs())
    prepared = quantize_fx.prepare_fx(Sum().eval(), mapping, example, prepare_custom_config=places)
    prepared(*example)
    return quantize_fx.convert_fx(prepared)


def parameters(tensor: Tensor) -> dict[str, Any]:
    return {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point(), "dtype": str(tensor.dtype)[len("torch.") :]}


class Open(static_models.Residual):
    """A model that returns what it quantizes, beside a float tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, None, str, dict[str, Tensor]]:
        q = self.quant(x)
        return x + 1, None, "text", {"first": self.first(q), "image": q}


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_quantized_outputs(capture: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    model = static_models.eager(Open(), x)
    program = onnxexp.export(model, (x,), capture=capture, output_names=["sum", "first", "image"])
    shifted, *constants, named = model(x)
    result = program(x)
    assert constants == [None, "text"] and torch.equal(result[0], shifted)
    assert torch.equal(result[3]["image"], named["image"].int_repr())
    assert (result[3]["first"].int() - named["first"].int_repr().int()).abs().max() <= 1
    for name in ("first", "image"):
        assert json.loads(program.model.metadata_props[f"quantized.{name}"]) == parameters(named[name])


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("flow", [eager, fx])
def test_integers_outside(flow: Any, capture: str) -> None:
    torch.manual_seed(0)
    model, (x, y) = flow(), inputs()
    dynamic = {"x": {0: "batch"}, "y": {0: "batch"}}
    program = onnxexp.export(model, (x,), kwargs={"y": y}, dynamic_shapes=dynamic, capture=capture, output_names=["sum"])
    assert [str(value.dtype) for value in (*program.model.graph.inputs, *program.model.graph.outputs)] == ["UINT8"] * 3
    x, y = inputs(batch=5)
    expected = model(x, y)
    result = program(x, y=y)
    assert result.dtype == torch.uint8
    assert (result.int() - expected.int_repr().int()).abs().max() <= 1
    assert torch.equal(program(x.int_repr(), y.int_repr()), result)
    for name, tensor in (("x", x), ("y", y), ("sum", expected)):
        assert json.loads(program.model.metadata_props[f"quantized.{name}"]) == parameters(tensor)
    assert program.verify(atol=1).ok


def test_a_call_with_other_parameters() -> None:
    torch.manual_seed(0)
    model = eager()
    program = onnxexp.export(model, inputs())
    x, y = inputs(x_scale=0.05)
    with pytest.raises(onnxexp.OnnxExporterError, match=r'^x is quantized with {"scale": 0.03, .*the call gives {"scale": 0.05,'):
        program(x, y)
    with pytest.raises(onnxexp.OnnxExporterError, match="the call gives float32"):
        program(x.dequantize(), y)
    near = torch.quantize_per_tensor(x.dequantize(), 0.03 * (1 + 1e-9), 120, torch.quint8)  # the same in float32
    assert torch.equal(program(near, y), program(near.int_repr(), y))
    with pytest.raises(onnxexp.CaptureError, match=r"a tensor of torch.float32 that is not quantized; to fix this, "):
        onnxexp.export(model, (x.dequantize(), y.dequantize()))


def dequantized(values: list[Tensor], factor: float) -> tuple[Tensor, ...]:
    return values[0], *(each.dequantize() * factor for each in values)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_other_dtypes_and_channels(capture: str) -> None:
    x = torch.randn(3, 5)
    scales, zero_points = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, -2, 3])
    values = [torch.quantize_per_tensor(x, 0.1, 2, dtype) for dtype in (torch.qint8, torch.qint32)]
    values.append(torch.quantize_per_channel(x, scales, zero_points, 0, torch.qint8))
    program = onnxexp.export(dequantized, (values, 2.0), capture=capture)
    assert program.verify().ok
    assert [str(value.dtype) for value in program.model.graph.inputs] == ["INT8", "INT32", "INT8"]
    texts = [program.model.metadata_props[f"quantized.{value.name}"] for value in program.model.graph.inputs]
    assert json.loads(texts[2]) == {"scale": scales.tolist(), "zero_point": [1, -2, 3], "dtype": "qint8", "axis": 0}
    other = torch.quantize_per_channel(x, scales, zero_points + 1, 0, torch.qint8)
    with pytest.raises(onnxexp.OnnxExporterError, match="or export again"):
        program([*values[:2], other], 2.0)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_float_model_that_quantizes_its_result(capture: str, nested: bool) -> None:
    def function(x: Tensor) -> Any:
        result = torch.quantize_per_tensor(x * 2, 0.1, 10, torch.quint8)
        return {"quantized": result, "float": x} if nested else result

    x = torch.randn(2, 3)
    program = onnxexp.export(
        function, (x,), capture=capture, dynamic_shapes=({0: "batch"},), output_names=["y", "z"][: 1 + nested]
    )
    assert json.loads(program.model.metadata_props["quantized.y"]) == {"scale": 0.1, "zero_point": 10, "dtype": "quint8"}
    for given in (x, torch.randn(5, 3)):
        actual, expected = program(given), function(given)
        pairs = (actual["quantized"], expected["quantized"]) if nested else (actual, expected)
        assert torch.equal(pairs[0], pairs[1].int_repr())


class Total(nn.Module):
    """A sum over a list, of any length in a script."""

    def forward(self, xs: list[Tensor]) -> Tensor:
        return torch.stack([x.dequantize() for x in xs]).sum(0)


def test_refused_inputs_and_outputs() -> None:
    x = inputs()[0]
    with pytest.raises(onnxexp.CaptureError, match="an input is a quantized tensor, which ONNX does not have"):
        onnxexp.export(torch.jit.script(Total()), ([x, x],))
    x = torch.quantize_per_channel(torch.randn(3, 5), torch.rand(3) + 0.1, torch.zeros(3, dtype=torch.int64), 0, torch.quint8)
    with pytest.raises(onnxexp.CaptureError, match="returns a tensor that is quantized per channel; to fix this, "):
        onnxexp.export(lambda x: x, (x,))
    x = torch.quantize_per_channel(torch.randn(3, 6), torch.rand(3) + 0.1, torch.rand(3), 0, torch.quint8)
    with pytest.raises(onnxexp.CaptureError, match="^x is a tensor of torch.quint8 with torch.per_channel_affine_float_qparams"):
        onnxexp.export(lambda x: x.dequantize(), (x,))
