"""Dynamically quantized recurrent layers and cells."""

from __future__ import annotations

import copy

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

import onnxexp
from onnxexp_quantized import Quantized
from tests.quantized.saturation import exact_sums
from tests.quantized.test_dynamic import weight_types


def quantized(model: nn.Module, config: quantization.QConfig = quantization.default_dynamic_qconfig) -> nn.Module:
    kinds = {nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
    return quantization.quantize_dynamic(model.eval(), dict.fromkeys(kinds, config))


class Layer(nn.Module):
    """A recurrent layer, with and without states of its own."""

    def __init__(self, kind: type[nn.RNNBase], **options: object) -> None:
        super().__init__()
        self.layer = kind(6, 8, **options)

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        given = (states[0] if isinstance(self.layer, nn.GRU | torch.ao.nn.quantized.dynamic.GRU) else states) if states else None
        y, final = self.layer(x, given)
        return (y, *final) if isinstance(final, tuple) else (y, final)


def with_dequantized_weights(model: Layer, float_model: Layer) -> Layer:
    """Copy the float model, with the weights that the file has."""
    copied = copy.deepcopy(float_model)
    for name, weight in model.layer._weight_bias()["weight"].items():
        getattr(copied.layer, name).data = weight.dequantize() if weight.is_quantized else weight
    return copied


def matrices(program: onnxexp.ONNXProgram) -> set[int]:
    """Return the types of the weights, which have one axis more than the biases."""
    return {initializer.data_type for initializer in program.model_proto.graph.initializer if len(initializer.dims) == 3}


STACKS = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("options", STACKS, ids=["one layer", "two bidirectional", "batch first"])
@pytest.mark.parametrize("opset", [10, 20])
def test_layers(capture: str, kind: type[nn.RNNBase], options: dict[str, object], opset: int) -> None:
    torch.manual_seed(0)
    exact = Layer(kind, **options).eval()
    model = quantized(exact)
    batch = 0 if options.get("batch_first") else 1
    axes = {batch: "batch", 1 - batch: "time"}
    x = torch.randn(4, 5, 6)
    program = onnxexp.export(model, (x,), capture=capture, opset_version=opset, dynamic_shapes=(axes,))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert matrices(program) == {onnx.TensorProto.INT8}
    expected = with_dequantized_weights(model, exact)
    for sizes in [(4, 5), (1, 1), (3, 7)]:
        x = torch.randn(*sizes, 6)
        torch.testing.assert_close(program(x), expected(x), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(program(x), model(x), atol=0.03, rtol=0)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("config", ["per_channel_dynamic_qconfig", "float16_dynamic_qconfig"])
def test_states_and_other_weights(capture: str, kind: type[nn.RNNBase], config: str) -> None:
    torch.manual_seed(0)
    exact = Layer(kind, bidirectional=True).eval()
    model = quantized(exact, getattr(quantization, config))
    states = [torch.randn(2, 5, 8) for _ in range(2 if kind is nn.LSTM else 1)]
    given = (torch.randn(4, 5, 6), *states)
    axes = ({0: "time", 1: "batch"}, tuple({1: "batch"} for _ in states))
    program = onnxexp.export(model, given, capture=capture, opset_version=13, dynamic_shapes=axes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert matrices(program) == {onnx.TensorProto.FLOAT16 if config.startswith("float16") else onnx.TensorProto.INT8}
    given = (torch.randn(3, 2, 6), *(torch.randn(2, 2, 8) for _ in states))
    torch.testing.assert_close(program(*given), with_dequantized_weights(model, exact)(*given), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(program(*given), model(*given), atol=0.03, rtol=0)


@exact_sums
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("config", ["default_dynamic_qconfig", "per_channel_dynamic_qconfig"])
def test_onnx_runtimes_integer_lstm(bidirectional: bool, config: str) -> None:
    torch.manual_seed(0)
    exact = Layer(nn.LSTM, num_layers=2, bidirectional=bidirectional).eval()
    model = quantized(exact, getattr(quantization, config))
    plugins = ["aten", "torchscript", Quantized(dynamic="ort")]
    x = torch.randn(4, 5, 6)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "time", 1: "batch"},), plugins=plugins)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert [node.op_type for node in program.model.graph].count("DynamicQuantizeLSTM") == 2
    for sizes in [(4, 5), (1, 1), (3, 7)]:
        x = torch.randn(*sizes, 6)
        torch.testing.assert_close(program(x), model(x), atol=0.05, rtol=0)


class Cell(nn.Module):
    """A cell that is called twice."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, *states: Tensor) -> object:
        given = states if len(states) == 2 else states[0]
        after = self.cell(x, given)
        return self.cell(x, after)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "cell", [nn.LSTMCell(6, 8), nn.GRUCell(6, 8), nn.RNNCell(6, 8), nn.RNNCell(6, 8, nonlinearity="relu")], ids=str
)
@pytest.mark.parametrize("config", ["default_dynamic_qconfig", "float16_dynamic_qconfig"])
def test_cells(capture: str, cell: nn.Module, config: str) -> None:
    """A cell quantizes input and state as torch does."""
    torch.manual_seed(0)
    model = quantized(Cell(cell), getattr(quantization, config))
    count = 2 if isinstance(cell, nn.LSTMCell) else 1

    def inputs(batch: int) -> tuple[Tensor, ...]:
        return torch.randn(batch, 6), *(torch.randn(batch, 8) for _ in range(count))

    axes = ({0: "batch"}, tuple({0: "batch"} for _ in range(count)))
    program = onnxexp.export(model, inputs(3), capture=capture, dynamic_shapes=axes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    kind = onnx.TensorProto.FLOAT16 if config.startswith("float16") else onnx.TensorProto.INT8
    assert weight_types(program) == {kind}
    for batch in (3, 1, 5):
        given = inputs(batch)
        torch.testing.assert_close(program(*given), model(*given), atol=1e-5, rtol=1e-5)


class OfLengths(nn.Module):
    """A layer on sequences of different lengths."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(6, 8, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind: type[nn.RNNBase], capture: str) -> None:
    torch.manual_seed(0)
    model = quantized(OfLengths(kind))
    given = (torch.randn(3, 5, 6), torch.tensor([5, 2, 3]))
    program = onnxexp.export(model, given, capture=capture, dynamic_shapes=({0: "batch", 1: "time"}, {0: "batch"}))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert onnx.TensorProto.INT8 in weight_types(program)
    given = (torch.randn(4, 7, 6), torch.tensor([1, 7, 3, 2]))
    torch.testing.assert_close(program(*given), model(*given), atol=0.03, rtol=0)
