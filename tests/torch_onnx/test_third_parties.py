"""Unmodified symbolics of installed packages, written for torch.onnx."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
import onnxexp_torch_onnx
from onnxexp_autograd import plugin
from tests.autograd.functions import Holder
from tests.torch_onnx.conftest import exporter

pytestmark = pytest.mark.usefixtures("served")

X = torch.randn(3, 4)


def export(function: Callable[..., Any], *inputs: torch.Tensor, opset: int, **options: Any) -> onnxexp.ONNXProgram:
    return exporter()(Holder(function), inputs, opset_version=opset, **{"plugins": [plugin, ...], **options})


def operators(program: onnxexp.ONNXProgram) -> set[str]:
    return {node.op_type for node in program.model.graph}


@pytest.fixture(scope="module")
def torchvision() -> Iterator[None]:
    """Provide torchvision's registrations, with stand-ins for a missing C++ part."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("torchvision is not installed")
    library = torch.library.Library("torchvision", "FRAGMENT")
    missing = not torch._C._jit_get_schemas_for_operator("torchvision::nms")
    if missing:
        tail = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define(f"roi_align(Tensor input, {tail}, int sampling_ratio, bool aligned) -> Tensor")
        torch.library.register_fake(
            "torchvision::nms",
            lambda b, s, t: s.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64),
            lib=library,
        )
        torch.library.register_fake(
            "torchvision::roi_align", lambda x, r, s, h, w, n, a: x.new_empty(r.shape[0], x.shape[1], h, w), lib=library
        )
    path = Path(spec.submodule_search_locations[0]) / "ops" / "_register_onnx_ops.py"
    theirs = importlib.util.spec_from_file_location("torchvision_register_onnx_ops", path)
    assert theirs is not None and theirs.loader is not None
    module = importlib.util.module_from_spec(theirs)
    theirs.loader.exec_module(module)
    module._register_custom_op()
    yield
    for name, opset in (("nms", 11), ("roi_align", 11), ("roi_align", 16), ("roi_pool", 11)):
        torch.onnx.unregister_custom_op_symbolic(f"torchvision::{name}", opset)


@pytest.mark.usefixtures("torchvision")
def test_the_error_names_torchvisions_registration() -> None:
    boxes, scores = torch.tensor([[0, 0, 10, 10.0]]), torch.tensor([0.8])
    with pytest.raises(onnxexp.UnsupportedOperators, match=r"torchvision::nms.*torch_registrations=True"):
        onnxexp_torch_onnx.export(  # torch.onnx.export reads the registrations
            Holder(lambda b, s: torch.ops.torchvision.nms(b, s, 0.5)), (boxes, scores), plugins=[plugin, "aten", "torch-onnx"]
        )


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("opset", [11, 13, 16, 18, 20])
def test_torchvision(opset: int) -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30.0]])
    scores = torch.tensor([0.8, 0.9, 0.7])
    program = export(lambda b, s: torch.ops.torchvision.nms(b, s, 0.5), boxes, scores, opset=opset, torch_registrations=True)
    assert "NonMaxSuppression" in operators(program)
    assert program(boxes, scores)[0].tolist() == [1, 2]
    rois = torch.tensor([[0, 1, 1, 9, 9.0]])
    program = export(
        lambda x, r: torch.ops.torchvision.roi_align(x, r, 1.0, 4, 4, 2, False),
        torch.randn(1, 3, 16, 16), rois, opset=opset, torch_registrations=True,
    )  # fmt: skip
    assert "RoiAlign" in operators(program)


@pytest.mark.parametrize("opset", [13, 17, 20])
def test_brevitas(opset: int) -> None:
    functions = pytest.importorskip("brevitas.export.onnx.standard.function")
    scale, zero = torch.tensor(0.1), torch.tensor(0, dtype=torch.int8)
    low, high = torch.tensor(-100, dtype=torch.int8), torch.tensor(100, dtype=torch.int8)

    def forward(x: torch.Tensor) -> torch.Tensor:
        quantized = functions.QuantizeLinearTorchScriptFn.apply(x, scale, zero, torch.int8, None)
        clipped = functions.IntClipTorchScriptFn.apply(quantized, low, high)
        return functions.DequantizeLinearTorchScriptFn.apply(clipped, scale, zero, None)

    program = export(forward, X, opset=opset)
    assert operators(program) == {"QuantizeLinear", "Clip", "DequantizeLinear"}
    torch.testing.assert_close(program(X)[0], torch.fake_quantize_per_tensor_affine(X, 0.1, 0, -100, 100))


def test_modelopt() -> None:
    quantization = pytest.importorskip("modelopt.torch.quantization.tensor_quant")
    amax = torch.tensor(3.0)

    def int8(x: torch.Tensor) -> torch.Tensor:
        return quantization.FakeTensorQuantFunction.apply(x, amax, None, 8, False, False, None, False, None, None)

    program = export(int8, X, opset=17)
    assert operators(program) == {"QuantizeLinear", "DequantizeLinear"}
    torch.testing.assert_close(program(X)[0], int8(X))
    fp8 = export(lambda x: quantization.ScaledE4M3Function.apply(x, amax, None, 4, 3, None, False), X, opset=19)
    assert operators(fp8) == {"TRT_FP8QuantizeLinear", "TRT_FP8DequantizeLinear"}
