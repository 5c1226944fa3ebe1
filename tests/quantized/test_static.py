"""Statically quantized models, from eager mode and from torch.fx."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from tests.quantized.static_models import Linear, Residual, Transformer, eager, fx, quantum, reference

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[int, str], tuple[tuple[int, ...], ...]]] = {
    "linear": (Linear, (6, 12), {0: "batch"}, ((1, 12), (7, 12))),
    "residual": (Residual, (2, 3, 8, 8), {0: "batch", 2: "height"}, ((1, 3, 6, 8), (5, 3, 33, 8))),
    "transformer": (Transformer, (2, 5, 16), {0: "batch", 1: "length"}, ((1, 5, 16), (3, 8, 16), (1, 1, 16))),
}
"""Float models, the example's shape, its dynamic axes, and other shapes."""
FLOWS = {"eager": eager, "fx": fx, "reference": reference}
ENGINES = ("fbgemm", "x86", "qnnpack", "onednn")
OPSETS = (10, 13, 17, 20, 21, 23)
QUICK = {("eager", "export", 17), ("fx", "trace", 13), ("reference", "export", 21), ("fx", "export", 20)}
"""The rows of the quick tier, for the engine fbgemm."""


def rows() -> list[Any]:
    """List each flow, model, engine and opset; most belong to the full matrix."""
    return [
        pytest.param(
            flow, name, engine, capture, opset,
            marks=[] if engine == "fbgemm" and (flow, capture, opset) in QUICK else pytest.mark.full,
            id=f"{flow}-{name}-{engine}-{capture}-{opset}",
        )
        for flow in FLOWS
        for name in MODELS
        for engine in ENGINES
        for capture in ("export", "trace")
        for opset in OPSETS
        if (engine == "fbgemm" and capture == "export") or opset in (10, 17)
    ]  # fmt: skip


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Any:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


def exported(model: nn.Module, example: Tensor, **options: Any) -> onnxexp.ONNXProgram:
    """Export and check a model; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor")
        program = onnxexp.export(model, (example,), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def differences(program: onnxexp.ONNXProgram, model: nn.Module, x: Tensor, optimized: bool) -> Tensor:
    """Return by how many quanta ONNX Runtime's results differ from torch's."""
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    expected = model(x)
    assert expected.shape == actual.shape
    return ((torch.from_numpy(actual) - expected) / quantum(model, torch.cat([x] * 2))).abs()


def float_weights(program: onnxexp.ONNXProgram) -> list[str]:
    """List the matrices and kernels that are no integers."""
    initializers = program.model_proto.graph.initializer
    matrices = [each for each in initializers if sum(size > 1 for size in each.dims) > 1]  # a scale by channels is none
    return [each.name for each in matrices if each.data_type == onnx.TensorProto.FLOAT]


@pytest.mark.parametrize(("flow", "name", "engine", "capture", "opset"), rows(), indirect=["engine"])
def test_a_model(flow: str, name: str, engine: str, capture: str, opset: int) -> None:
    torch.manual_seed(0)
    build, shape, axes, others = MODELS[name]
    example = torch.randn(shape)
    model = FLOWS[flow](build(), example, engine=engine)
    before = [(key, id(value)) for module in model.modules() for key, value in [*vars(module).items(), *module._buffers.items()]]
    program = exported(model, example, capture=capture, opset_version=opset, dynamic_shapes=(axes,))
    after = [(key, id(value)) for module in model.modules() for key, value in [*vars(module).items(), *module._buffers.items()]]
    assert before == after
    assert float_weights(program) == []
    for sizes in (shape, *others):
        x = torch.randn(sizes)
        for optimized in (False, True):
            assert differences(program, model, x, optimized).max() < 1.01


class Stored(nn.Module):
    """Quantizes by torch's functions, and stores quantized tensors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.quantize_per_tensor(torch.randn(4, 6), 0.05, 10, torch.quint8))
        zero_points = torch.zeros(4, dtype=torch.int64)
        self.factors = torch.quantize_per_channel(torch.randn(4, 6), torch.linspace(0.01, 0.04, 4), zero_points, 0, torch.qint8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q = torch.quantize_per_tensor(x, 0.04, 60, torch.quint8)
        total = torch.ops.quantized.add(q, self.table, 0.06, 70)
        return total.dequantize() * self.factors.dequantize(), q.int_repr(), torch.tensor(q.q_scale())


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_stored_tensors_and_functions(capture: str) -> None:
    torch.manual_seed(0)
    model, x = Stored(), torch.randn(4, 6)
    program = exported(model, x, capture=capture, opset_version=17)
    for actual, expected in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    types = {each.name: each.data_type for each in program.model_proto.graph.initializer}
    assert (types["table"], types["factors"]) == (onnx.TensorProto.UINT8, onnx.TensorProto.INT8)
    assert model.table.is_quantized and model.factors.is_quantized and list(model._buffers) == ["table"]


class Rolled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.roll(torch.quantize_per_tensor(x, 0.04, 60, torch.quint8), 1).dequantize()


@pytest.mark.parametrize("capture", ["auto", "export", "trace"])
def test_a_function_without_an_implementation(capture: str) -> None:
    with pytest.raises(onnxexp.CaptureError) as caught:
        onnxexp.export(Rolled(), (torch.ones(3),), capture=capture)
    message = str(caught.value)
    assert message.startswith("roll is called with a quantized tensor") and message.count("roll is called") == 1
    assert "to fix this, dequantize" in message and "return torch.roll(" in message


class Pooled(nn.Module):
    """Pooling by functions that the tracer's plugin replaces.

    The image is larger than torch's pooling of bytes takes.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q = torch.quantize_per_tensor(x, 0.05, 61, torch.quint8)
        small = nn.functional.avg_pool2d(q, kernel_size=3, stride=2)
        large = nn.functional.max_pool2d(nn.functional.interpolate(q, scale_factor=2), 3, 2, 1)
        return small.dequantize(), large.dequantize(), torch.cat([q.mean([2, 3]), q.flatten(1)[:, :4]], 1).dequantize()


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_pooling(capture: str) -> None:
    torch.manual_seed(0)
    model, x = Pooled(), torch.randn(2, 3, 16, 20)
    program = exported(model, x, capture=capture, opset_version=17, dynamic_shapes=({0: "batch", 2: "height"},))
    for image in (x, torch.randn(1, 3, 21, 20)):
        for actual, expected in zip(program(image), model(image), strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)  # halves are rounded as torch's kernels round them


class _Prepacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.quantize_per_tensor(torch.randn(6, 4), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x, self.packed)  # type: ignore[no-any-return]


@pytest.mark.skipif("qnnpack" not in torch.backends.quantized.supported_engines, reason="torch has no QNNPACK")
@pytest.mark.parametrize("engine", ["qnnpack"], indirect=True)
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_bias_of_qnnpack_is_not_cloned_lazily(engine: Any, capture: str) -> None:
    """A lazy clone of the bias, which torch does not allocate, ended the process."""
    model, x = _Prepacked(), torch.randn(2, 4)
    for _ in range(2):
        program = onnxexp.export(model, (x,), capture=capture, opset_version=12)
    torch.testing.assert_close(program(x), model(x), rtol=0.05, atol=0.1)
