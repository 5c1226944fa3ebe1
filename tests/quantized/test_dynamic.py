"""Layers that quantize their input at run time."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

import onnxexp
from onnxexp_quantized import Quantized
from tests.quantized.saturation import exact_sums


class Block(nn.Module):
    """A feed-forward block of a transformer with a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.gelu = nn.LayerNorm(16), nn.Linear(16, 40), nn.Linear(40, 16, bias=False), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.gelu(self.up(self.norm(x))))


def dynamic(model: nn.Module, config: quantization.QConfig = quantization.default_dynamic_qconfig) -> nn.Module:
    """Quantize the linear layers of a model dynamically."""
    return quantization.quantize_dynamic(model.eval(), {nn.Linear: config})


def weight_types(program: onnxexp.ONNXProgram) -> set[int]:
    """Return the types of the matrices in a file."""
    return {initializer.data_type for initializer in program.model_proto.graph.initializer if len(initializer.dims) >= 2}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [10, 20, *(pytest.param(opset, marks=pytest.mark.full) for opset in (13, 23))])
@pytest.mark.parametrize("config", [quantization.default_dynamic_qconfig, quantization.per_channel_dynamic_qconfig])
def test_linear_layers(capture: str, opset: int, config: quantization.QConfig) -> None:
    torch.manual_seed(0)
    model = dynamic(Block(), config)
    program = onnxexp.export(
        model, (torch.randn(2, 3, 16),), capture=capture, opset_version=opset, dynamic_shapes=({0: "batch", 1: "time"},)
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert weight_types(program) == {onnx.TensorProto.INT8}
    for sizes in [(2, 3), (1, 1), (5, 7)]:
        x = torch.randn(*sizes, 16)
        torch.testing.assert_close(program(x), model(x), atol=2e-6, rtol=1e-5)


def agree(program: onnxexp.ONNXProgram, model: nn.Module, *inputs: Tensor, quantum: float = 2e-6) -> None:
    torch.testing.assert_close(program(*inputs), model(*inputs), atol=quantum, rtol=1e-5)


@exact_sums
@pytest.mark.parametrize("engine", ["fbgemm", "qnnpack", "onednn"])
def test_the_range_that_the_engine_uses(engine: str) -> None:
    """qnnpack ignores reduce_range; a model keeps the engine that it was packed for."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        model = dynamic(nn.Sequential(nn.Linear(16, 4)))
    finally:
        torch.backends.quantized.engine = before
    x = torch.randn(3, 16)
    agree(onnxexp.export(model, (x,)), model, x)


class Functions(nn.Module):
    """A result of a function of torch.ops.quantized on packed parameters."""

    def __init__(self, name: str, packed: object, *rest: object) -> None:
        super().__init__()
        self.name, self.packed, self.rest = name, packed, rest

    def forward(self, x: Tensor) -> Tensor:
        return getattr(torch.ops.quantized, self.name)(x, self.packed, *self.rest)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("reduced", [True, False])
def test_a_linear_layer_with_relu_is_exact(capture: str, reduced: bool) -> None:
    """Halves round as in torch, which multiplies by the reciprocal of the scale."""
    weight = torch.quantize_per_tensor(torch.eye(8), 1.0, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    model = Functions("linear_relu_dynamic", packed, reduced).eval()
    x = torch.arange(-32, 32).reshape(8, 8) / 3.7
    program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch"},))
    for each in (x, x[:1], x[:0], x * 0, x * 1e-6, -x.abs()):
        assert torch.equal(program(each), model(each))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_float16_weights(capture: str) -> None:
    model = dynamic(nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 3)), quantization.float16_dynamic_qconfig)
    program = onnxexp.export(model, (torch.randn(3, 16),), capture=capture, dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert weight_types(program) == {onnx.TensorProto.FLOAT16}
    agree(program, model, torch.randn(5, 16))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions(capture: str, transposed: bool) -> None:
    """torch quantizes the result with the scale of the input."""
    weight = torch.quantize_per_tensor(torch.randn(4, 4, 3, 3) / 4, 0.01, 0, torch.qint8)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        settings = [[2, 1], [1, 1], *([[0, 0]] if transposed else []), [1, 1], 1]
        kind = "conv_transpose2d" if transposed else "conv2d"
        prepack = getattr(torch.ops.quantized, f"{kind}_prepack")
        model = Functions(f"{kind}_dynamic", prepack(weight, torch.randn(4), *settings), True).eval()
    finally:
        torch.backends.quantized.engine = before
    program = onnxexp.export(
        model, (torch.randn(2, 4, 8, 8),), capture=capture, opset_version=13, dynamic_shapes=({0: "batch", 2: "height"},)
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert weight_types(program) == {onnx.TensorProto.INT8}
    x = torch.randn(3, 4, 5, 8)
    agree(program, model, x, quantum=float(x.max() - x.min()) / 127 * 1.01)


class Requantized(nn.Module):
    def __init__(self, dtype: torch.dtype, reduced: bool) -> None:
        super().__init__()
        self.linear = torch.ao.nn.quantized.dynamic.Linear(4, 4)
        self.dtype, self.reduced = dtype, reduced

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        quantized = torch.quantize_per_tensor_dynamic(x, self.dtype, self.reduced)
        return quantized.dequantize(), quantized.int_repr(), self.linear(x)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
@pytest.mark.parametrize("reduced", [True, False])
def test_quantize_per_tensor_dynamic(capture: str, dtype: torch.dtype, reduced: bool) -> None:
    model, x = Requantized(dtype, reduced).eval(), torch.randn(5, 4)
    program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch"},))
    for each in (x, torch.randn(3, 4) + 3, torch.randn(1, 4) * 1e-5):
        floats, codes, _ = program(each)
        expected = model(each)
        assert torch.equal(codes, expected[1])
        torch.testing.assert_close(floats, expected[0])


@exact_sums
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_onnx_runtimes_own_quantization(capture: str) -> None:
    """Eight bits are nearer to the float model than the seven of torch."""
    torch.manual_seed(0)
    exact = Block().eval()
    model = dynamic(exact)
    plugins = ["aten", "torchscript", Quantized(dynamic="ort")]
    program = onnxexp.export(model, (torch.randn(2, 3, 16),), capture=capture, dynamic_shapes=({0: "batch"},), plugins=plugins)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert [node.op_type for node in program.model.graph].count("DynamicQuantizeLinear") == 2
    x = torch.randn(7, 3, 16)
    assert (program(x) - exact(x)).abs().mean() < (model(x) - exact(x)).abs().mean()


def test_onnx_runtimes_own_quantization_keeps_the_range_of_a_convolution() -> None:
    """torch uses 7 bits, and rounds results in steps of twice the input's range."""
    torch.manual_seed(0)
    weight = torch.quantize_per_tensor(torch.randn(4, 4, 3, 3) / 4, 0.01, 0, torch.qint8)
    packed = torch.ops.quantized.conv2d_prepack(weight, torch.randn(4), [1, 1], [1, 1], [1, 1], 1)
    model, x = Functions("conv2d_dynamic", packed, True).eval(), torch.randn(2, 4, 8, 8)
    plugins = ["aten", "torchscript", Quantized(dynamic="ort")]
    agree(onnxexp.export(model, (x,), capture="trace", plugins=plugins), model, x, quantum=float(x.max() - x.min()) / 127 * 1.01)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(onnxexp.OptionError, match="'exact' or 'ort'"):
        Quantized(dynamic="fast")


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_fx_graph_mode(capture: str) -> None:
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    example = torch.randn(2, 3, 16)
    mapping = quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)
    prepared = prepare_fx(nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), mapping, (example,))
    model = convert_fx(prepared)
    program = onnxexp.export(model, (example,), capture=capture, dynamic_shapes=({0: "batch"},))
    assert weight_types(program) == {onnx.TensorProto.INT8}
    agree(program, model, torch.randn(5, 3, 16))
