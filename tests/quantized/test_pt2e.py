"""Models that pt2e quantized: torch.export's graphs of quantized_decomposed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from tests.quantized.saturation import exact_sums
from tests.quantized.without_fusions import run_unfused
from tests.torch_versions import needs_torch

pytest.importorskip("torchao")
pt2e = pytest.importorskip("torchao.quantization.pt2e")
quantize = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
xnnpack = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")


class Net(nn.Module):
    """Convolutions with a residual sum and pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(torch.relu(x + self.second(x)), 2)
        return self.head(x.mean([2, 3]))


class Layers(nn.Module):
    """Linear layers on sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.norm(torch.relu(self.up(x))))


SHAPES: dict[type[nn.Module], tuple[int, ...]] = {Net: (4, 3, 8, 8), Layers: (4, 5, 16)}


@pytest.fixture(scope="module")
def converted() -> dict[Any, Any]:
    """Provide a store of models, which take longer to prepare than to export."""
    return {}


def quantized(made: dict[Any, Any], kind: type[nn.Module], flow: str) -> tuple[torch.fx.GraphModule, Tensor]:
    """Quantize a model by the quantizer of torch's compiler or of XNNPACK."""
    torch.manual_seed(0)
    shape = SHAPES[kind]
    if (kind, flow) not in made:
        training = flow == "qat"
        example = torch.randn(shape)
        batch = torch.export.Dim("batch")
        graph = torch.export.export(kind().train(training), (example,), dynamic_shapes=({0: batch},)).module()
        if flow.startswith("xnnpack"):
            config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=flow == "xnnpack dynamic")
            quantizer = xnnpack.XNNPACKQuantizer().set_global(config)
        else:
            config = x86.get_default_x86_inductor_quantization_config(is_qat=training, is_dynamic=flow == "dynamic")
            quantizer = x86.X86InductorQuantizer().set_global(config)
        prepared = (quantize.prepare_qat_pt2e if training else quantize.prepare_pt2e)(graph, quantizer)
        for _ in range(3):
            prepared(torch.randn(shape))
        if training:
            pt2e.move_exported_model_to_eval(prepared)
        model = quantize.convert_pt2e(prepared)
        pt2e.move_exported_model_to_eval(model)
        made[kind, flow] = model
    return copy.deepcopy(made[kind, flow]), torch.randn(shape)


def check(program: onnxexp.ONNXProgram, model: nn.Module, shape: tuple[int, ...]) -> None:
    """Compare a program with torch at other sizes; the weights are integers."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    weights = [each for each in program.model_proto.graph.initializer if sum(size > 1 for size in each.dims) > 1]
    assert weights and {each.data_type for each in weights} == {onnx.TensorProto.INT8}
    for batch in (shape[0], 1, 7):
        x = torch.randn(batch, *shape[1:])
        with torch.no_grad():
            expected = model(x)
        difference = (run_unfused(program, x) - expected).abs()
        assert difference.mean() <= 1e-3 and difference.max() <= 0.02 * expected.abs().max()
        assert (program(x) - expected).abs().max() <= 0.02 * expected.abs().max()


X86 = needs_torch((2, 12), "the quantizer of torch's compiler quantizes nothing")


def flow_of(kind: type[nn.Module], flow: str) -> Any:
    """Return the parameters of a flow, skipped where its quantizer does not work."""
    return pytest.param(kind, flow, marks=[] if flow.startswith("xnnpack") else X86)


@exact_sums
@pytest.mark.parametrize("opset", [*(pytest.param(opset, marks=pytest.mark.full) for opset in (10, 13, 17)), 21])
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    ("kind", "flow"),
    [
        *(flow_of(Net, flow) for flow in ("static", "qat", "dynamic", "xnnpack")),
        *(flow_of(Layers, flow) for flow in ("static", "dynamic", "xnnpack", "xnnpack dynamic")),
    ],
)
def test_flows(kind: type[nn.Module], flow: str, capture: str, opset: int, converted: dict[Any, Any]) -> None:
    model, x = quantized(converted, kind, flow)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "batch"},), opset_version=opset, capture=capture)
    check(program, model, SHAPES[kind])


@exact_sums
@X86
def test_exported_programs(tmp_path: Path, converted: dict[Any, Any]) -> None:
    """A program of torch.export, also from a file."""
    model, x = quantized(converted, Net, "static")
    given = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(given, tmp_path / "model.pt2")
    for program in (given, torch.export.load(tmp_path / "model.pt2")):
        check(onnxexp.export(program, opset_version=17), model, SHAPES[Net])


@X86
def test_opset_12_has_scales_for_whole_tensors_only(converted: dict[Any, Any]) -> None:
    """Scales by channel are multiplied; the integers stay as they are."""
    model, x = quantized(converted, Net, "static")
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "batch"},), opset_version=12)
    check(program, model, SHAPES[Net])
