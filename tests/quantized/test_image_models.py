"""Statically quantized networks for images: codes and best classes against torch's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from tests.models.classic_vision import ResNet, calibrated, lively
from tests.models.inception import InceptionV3
from tests.quantized.image_models import GoogLeNet, MobileNetV2, MobileNetV3, ShuffleNet
from tests.quantized.static_models import fx, quantum

NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet18": (lambda: ResNet((2, 2, 2, 2), False, 10, 0.125), 64),
    "resnet50": (lambda: ResNet((3, 4, 6, 3), True, 10, 0.0625), 64),
    "mobilenet-v2": (MobileNetV2, 64),
    "mobilenet-v3": (MobileNetV3, 64),
    "shufflenet": (ShuffleNet, 64),
    "googlenet": (GoogLeNet, 64),
    "inception-v3": (lambda: InceptionV3(10, 0.125), 107),
}
"""Networks, and the side of their images."""


def noise(count: int, side: int, seed: int) -> Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def images(model: nn.Module, count: int, side: int, seed: int) -> Tensor:
    """Random images that the quantizer of the input leaves as they are.

    Other numbers may be halfway between two integers, where torch and ONNX Runtime round to different ones: 1 of 100 000. In a
    network of random weights such a pixel moves the scores by some quanta.
    """
    scale, zero_point = (
        next(value for name, value in model.named_buffers() if name.endswith(f"_input_{part}_0"))
        for part in ("scale", "zero_point")
    )
    return torch.quantize_per_tensor(noise(count, side, seed), float(scale), int(zero_point), torch.quint8).dequantize()


def quantized(name: str, engine: str) -> nn.Module:
    """A network that is calibrated on random images."""
    build, side = NETWORKS[name]
    torch.manual_seed(0)
    model = calibrated(lively(build), (16, 3, side, side))().eval()
    return fx(model, noise(8, side, 1), engine=engine)


def run(program: onnxexp.ONNXProgram, images: Tensor, optimized: bool) -> Tensor:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: images.numpy()})[0])


@pytest.mark.parametrize(
    ("name", "engine", "count"),
    [
        *(pytest.param(name, "fbgemm", 200, marks=pytest.mark.full if name != "shufflenet" else []) for name in NETWORKS),
        *(pytest.param(name, "onednn", 50, marks=pytest.mark.full) for name in NETWORKS),
    ],
)
def test_a_network(name: str, engine: str, count: int, request: Any) -> None:
    before = torch.backends.quantized.engine
    request.addfinalizer(lambda: setattr(torch.backends.quantized, "engine", before))
    torch.backends.quantized.engine = engine
    side, model = NETWORKS[name][1], quantized(name, engine)
    program = onnxexp.export(model, (noise(2, side, 2),), capture="trace", dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    given = images(model, count, side, 3)
    expected = model(given)
    step = quantum(model, given)
    exact, fused = (run(program, given, optimized) for optimized in (False, True))
    # random weights multiply each difference from layer to layer, and the kernels of ONNX Runtime quantize the bias:
    # the bounds are what seven networks reach; operators and small models have the strict ones
    assert (((exact - expected) / step).abs() < 1.01).float().mean() > 0.92
    assert (exact.argmax(1) == expected.argmax(1)).float().mean() > 0.96
    assert torch.corrcoef(torch.stack([fused.flatten(), expected.flatten()]))[0, 1] > 0.8
