"""Symbolics of operators that a capture would take apart: the graph has what the user registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import symbolic_helper
from tests.core.test_restricted_calls import Model

X = torch.randn(3, 8)
IMAGE = torch.randn(1, 4, 9, 9)
BOTH = pytest.mark.parametrize("capture", ["auto", "trace"])


@pytest.fixture
def register(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    def add(name: str, symbolic: Any) -> None:
        onnx_exporter.register_custom_op_symbolic(name, symbolic, 17)
        request.addfinalizer(lambda: onnx_exporter.unregister_custom_op_symbolic(name, 17))

    return add


def export(model: nn.Module, x: torch.Tensor, capture: str) -> Any:
    return onnx_exporter.export(model.eval(), (x,), opset_version=17, capture=capture)


def kinds(program: Any) -> list[str]:
    return [f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node]


CALLS: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "fake_quantize_per_tensor_affine": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), X),
    "fake_quantize_per_channel_affine": (
        lambda x: torch.fake_quantize_per_channel_affine(x, torch.ones(3), torch.zeros(3, dtype=torch.int32), 0, 0, 255),
        X,
    ),
    "chunk": (lambda x: x.chunk(2, 1)[0] + 1, X),
}


@BOTH
@pytest.mark.parametrize("name", ["fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"])
def test_fake_quantization(name: str, capture: str, register: Any) -> None:
    function, x = CALLS[name]
    register(f"aten::{name}", lambda g, x, *rest: g.op("mine::Rounded", x))
    assert kinds(export(Model(function), x, capture)) == ["mine::Rounded"]


@BOTH
def test_pieces(capture: str, register: Any) -> None:
    register("aten::chunk", lambda g, x, *rest: g.op("mine::Pieces", x, outputs=2))
    assert kinds(export(Model(CALLS["chunk"][0]), X, capture)) == ["mine::Pieces", "::Add"]


@BOTH
def test_complex_results(capture: str, register: Any) -> None:
    def refuse(g: Any, x: Any, *rest: Any) -> Any:
        raise RuntimeError("the symbolic was called")

    register("aten::stft", refuse)
    model = Model(lambda x: torch.view_as_real(torch.stft(x, 4, return_complex=True, window=torch.hann_window(4))))
    with pytest.raises(onnx_exporter.OnnxExporterError, match="the symbolic was called"):
        export(model, X, capture)


@BOTH
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
    ],
    ids=["plain", "transposed"],
)
def test_convolutions_as_torchs_tracer_records_them(layer: nn.Module, capture: str, register: Any) -> None:
    def symbolic(g: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        stride, padding, dilation, transposed, output_padding, groups = (
            symbolic_helper._parse_arg(each, kind)
            for each, kind in zip(rest[:6], ("is", "is", "is", "i", "is", "i"), strict=True)
        )
        attributes = {"strides_i": stride, "pads_i": [*padding, *padding], "dilations_i": dilation, "group_i": groups}
        if transposed:
            return g.op("ConvTranspose", x, weight, bias, **attributes, output_padding_i=output_padding)
        return g.op("Conv", x, weight, bias, **attributes)

    seen: list[None] = []
    register("aten::_convolution", lambda *given: (seen.append(None), symbolic(*given))[1])
    program = export(layer, IMAGE, capture)
    assert len(seen) == 1
    torch.testing.assert_close(program(IMAGE), (layer(IMAGE),))


@BOTH
def test_a_quantized_tensor_goes_from_one_symbolic_to_the_next(capture: str, register: Any) -> None:
    @symbolic_helper.parse_args("v", "f", "i", "i")
    def quantize(g: Any, x: Any, scale: float, zero_point: int, dtype: int) -> Any:
        zero = g.op("Constant", value_t=torch.tensor(zero_point, dtype=torch.uint8))
        return symbolic_helper.quantize_helper(g, x, g.op("Constant", value_t=torch.tensor(scale)), zero)

    register("aten::quantize_per_tensor", quantize)
    register("aten::dequantize", lambda g, x: symbolic_helper.dequantize_helper(g, x)[0])
    model = Model(lambda x: torch.dequantize(torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)))
    program = export(model, X, capture)
    assert kinds(program) == ["::QuantizeLinear", "::DequantizeLinear"]
    torch.testing.assert_close(program(X), (model(X),))
