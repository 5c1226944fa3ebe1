"""Unmodified autograd Functions and registrations of packages, for torch.onnx.

`make test` has transformers and ONNX Runtime; ``make third-parties`` installs the rest.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp_autograd import plugin
from tests.autograd.functions import Holder
from tests.torch_onnx.conftest import exporter

pytestmark = pytest.mark.usefixtures("served")

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
SQUARE = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)) + 4 * torch.eye(4)
QUANTIZED = ["QuantizeLinear", "DequantizeLinear"]
MISSING = ("nms(Tensor dets, Tensor scores, float t) -> Tensor", "qnms(Tensor dets, Tensor scores, float t) -> Tensor")
captures = pytest.mark.parametrize("capture", ["export", "trace"])


def export(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> onnxexp.ONNXProgram:
    return exporter()(Holder(function).eval(), inputs, plugins=[plugin, ...], **options)


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


def quantized(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)


@pytest.fixture(scope="module", autouse=True)
def torchvision() -> Any:
    """Define stand-ins for torchvision's C++ part, which its import needs."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in MISSING if importlib.util.find_spec("torchvision") is not None else ():
        if not torch._C._jit_get_schemas_for_operator(f"torchvision::{schema.partition('(')[0]}"):
            library.define(schema)
    return library


@captures
@pytest.mark.parametrize("opset", [12, 17, 20])
def test_transformers_sew_d(capture: str, opset: int) -> None:
    """XSoftmax and XDropout of DeBERTa and SEW-D, which use torch.onnx's symbolics."""
    sew_d = pytest.importorskip("transformers.models.sew_d.modeling_sew_d")
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1]])
    program = export(lambda x, m: sew_d.XSoftmax.apply(x, m, -1), X, mask, capture=capture, opset_version=opset)
    assert operators(program).count("Where") == 2 and "Softmax" in operators(program)
    torch.testing.assert_close(program(X, mask)[0], sew_d.XSoftmax.apply(X, mask, -1))
    assert operators(export(lambda x: sew_d.XDropout.apply(x, 0.5), X, capture=capture, opset_version=opset)) == ["Dropout"]


@pytest.fixture
def contributed() -> Iterator[None]:
    contributed = pytest.importorskip("onnxruntime.tools.pytorch_export_contrib_ops")
    contributed.register()
    yield
    contributed.unregister()


GRID = (torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1)
CONTRIBUTED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "Gelu": (torch.nn.functional.gelu, (X,)),
    "Inverse": (torch.linalg.inv, (SQUARE,)),
    "Trilu": (lambda x: torch.triu(x, 1) + torch.tril(x, -1), (SQUARE,)),
    "GridSample": (lambda x, grid: torch.grid_sampler(x, grid, 0, 0, False), GRID),
}


@pytest.mark.usefixtures("contributed")
@captures
@pytest.mark.parametrize("name", CONTRIBUTED)
def test_onnxruntime(name: str, capture: str) -> None:
    """ONNX Runtime's registrations of its own operators, made with torch.onnx itself."""
    function, inputs = CONTRIBUTED[name]
    program = export(function, *inputs, capture=capture, opset_version=17, torch_registrations=True)
    assert ("com.microsoft", name) in {(node.domain, node.op_type) for node in program.model.graph}
    torch.testing.assert_close(program(*inputs)[0], function(*inputs), atol=1e-4, rtol=1e-4)


@captures
@pytest.mark.parametrize("name", ["SwishMe", "MishMe", "HardSigmoidMe", "HardSwishMe", "HardMishMe"])
def test_timm(name: str, capture: str) -> None:
    activations = pytest.importorskip("timm.layers.activations_me")
    model = getattr(activations, name)().eval()
    program = export(model, X, capture=capture)
    torch.testing.assert_close(program(X)[0], model(X))


def test_onnx2torch() -> None:
    """A Function gets a forward that can be called once, and its ONNX operator."""
    onnx2torch = pytest.importorskip("onnx2torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)).eval()
    x = torch.randn(1, 3, 8, 8)
    back = onnx2torch.convert(exporter()(model, x, opset_version=13).model_proto)
    program = export(back, x, opset_version=13, capture="trace")
    torch.testing.assert_close(program(x)[0], model(x), atol=1e-4, rtol=1e-4)


@captures
def test_nncf(capture: str) -> None:
    functions = pytest.importorskip("nncf.torch.quantization.quantize_functions")
    scale, zero = torch.tensor(0.1), torch.tensor(0, dtype=torch.int8)
    both = functions.ExportQuantizeToONNXQuantDequant
    program = export(lambda x: both.apply(x, scale, zero, None), X, capture=capture, opset_version=13)
    assert operators(program) == QUANTIZED
    torch.testing.assert_close(program(X)[0], quantized(X))
    ends = torch.tensor([-1.0]), torch.tensor([1.0])
    given = (256, *ends, *ends, torch.tensor(2 / 255), torch.tensor(0, dtype=torch.int32), -128, 127, None)
    openvino = export(lambda x: functions.ExportQuantizeToFakeQuantize.apply(x, *given), X, capture=capture)
    assert operators(openvino) == ["FakeQuantize"]


def test_mct_quantizers() -> None:
    quantizers = pytest.importorskip("mct_quantizers.pytorch.quantizers")
    activation = quantizers.ActivationPOTInferableQuantizer(num_bits=8, threshold=[2.0], signed=True)
    activation.enable_custom_impl()
    (node,) = export(lambda x: activation(x), X, capture="trace").model.graph
    assert (node.domain, node.op_type) == ("mct_quantizers", "ActivationPOTQuantizer")
    assert node.attributes["threshold"].value == 2.0 and node.attributes["num_bits"].value == 8


@captures
def test_quark(capture: str) -> None:
    kernel = pytest.importorskip("quark.torch.kernel")
    given = (1, 1, -128, 127, 8, "per_tensor", "None")
    scale, zero = torch.tensor(0.1), torch.tensor(0, dtype=torch.int32)
    program = export(lambda x: kernel.ScaledFakeQuantizeFunction.apply("int8", x, scale, zero, *given), X, capture=capture)
    assert operators(program) == QUANTIZED
    torch.testing.assert_close(program(X)[0], quantized(X))


@captures
def test_aimet(capture: str) -> None:
    """AIMET's symbolics are onnxscript functions, through g.onnxscript_op."""
    theirs = pytest.importorskip("aimet_torch.experimental.onnx._export")

    @theirs.register_symbolic(theirs.quantize_dequantize_symbolic)
    def quantize_dequantize(x, scale, offset, low, high):
        return ((x / scale).round() - offset).clamp(low, high).add(offset).mul(scale)

    scale, offset = torch.tensor(0.1), torch.tensor(0.0)
    program = export(lambda x: quantize_dequantize(x, scale, offset, -128, 127), X, capture=capture, opset_version=17)
    assert operators(program) == ["quantize_dequantize"] and len(program.model.functions) == 1
    torch.testing.assert_close(program(X)[0], quantized(X))


@pytest.mark.parametrize(
    "name", ["RoundToZeroSteFn", "CeilSteFn", "FloorSteFn", "BinarySignSteFn", "TernarySignSteFn", "RoundSteFn"]
)
def test_brevitas_estimators(name: str) -> None:
    function = getattr(pytest.importorskip("brevitas.ops.autograd_ste_ops"), name)
    program = export(lambda x: function.apply(x), X)
    torch.testing.assert_close(program(X)[0], function.apply(X))


def test_onnxruntime_extensions() -> None:
    pipeline = pytest.importorskip("onnxruntime_extensions._torch_cvt").WhisperPrePipeline(n_samples=8000)
    program = export(pipeline, torch.randn(1, 8000), opset_version=17)
    first = next(iter(program.model.graph))
    assert (first.domain, first.op_type, len(first.inputs)) == ("ai.onnx.contrib", "StftNorm", 5)
