"""Quantized networks for images: codes and best classes beside torch's kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from tests.models.classic_vision import ResNet
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
"""Networks, and the side of their pictures."""


KINDS = 10
"""The kinds of pictures, and a network's classes."""


def pictures(count: int, side: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw noisy random pictures of the ten kinds, and their kinds."""
    patterns = torch.randn(KINDS, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, KINDS, (count,), generator=generator)
    clear = nn.functional.interpolate(patterns, (side, side), mode="bilinear")[kinds]
    return clear + 0.3 * torch.randn(count, 3, side, side, generator=generator), kinds


@functools.cache
def trained(name: str) -> nn.Module:
    """Train a network, since random weights multiply the rounding of each layer."""
    build, side = NETWORKS[name]
    torch.manual_seed(0)
    model = build().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(120):
        images, kinds = pictures(32, side, 100 + step)
        scores = model(images)
        loss = nn.functional.cross_entropy(scores[0] if isinstance(scores, tuple) else scores, kinds)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def images(model: nn.Module, count: int, side: int, seed: int) -> Tensor:
    """Draw pictures that the quantizer of the input leaves as they are.

    Other numbers may be halfway between two integers, where torch and ONNX Runtime round to different ones: 1 of 100 000.
    """
    scale, zero_point = (
        next(value for name, value in model.named_buffers() if name.endswith(f"_input_{part}_0"))
        for part in ("scale", "zero_point")
    )
    given = pictures(count, side, seed)[0]
    return torch.quantize_per_tensor(given, float(scale), int(zero_point), torch.quint8).dequantize()


def run(program: onnxexp.ONNXProgram, images: Tensor, optimized: bool) -> Tensor:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: images.numpy()})[0])


@pytest.mark.full
@pytest.mark.parametrize("engine", ["fbgemm", "onednn", "qnnpack"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str, engine: str, request: pytest.FixtureRequest) -> None:
    before = torch.backends.quantized.engine
    request.addfinalizer(lambda: setattr(torch.backends.quantized, "engine", before))
    torch.backends.quantized.engine = engine
    side = NETWORKS[name][1]
    model = fx(trained(name), pictures(32, side, 1)[0], engine=engine)
    program = onnxexp.export(model, (pictures(2, side, 2)[0],), capture="trace", dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    given = images(model, 200, side, 3)
    expected = model(given)
    step = quantum(model, given)
    plain, fused = (run(program, given, optimized) for optimized in (False, True))
    # ONNX Runtime's integer kernels round the bias to an integer, and so does QNNPACK. FBGEMM and oneDNN add it in float,
    # and so does a graph without fusions.
    like, unlike = (fused, plain) if engine == "qnnpack" else (plain, fused)
    # QuantizeLinear divides by the scale, oneDNN multiplies by its inverse: of 100 000 sums of ResNet-50's 16 blocks, one is
    # rounded to another integer; FBGEMM and oneDNN differ in 0.3 % of its codes. The processor decides how many: its float
    # kernels train other weights (0.9935 to 1 of the results, and 9 steps at most, on two machines).
    assert (((like - expected) / step).abs() < 1.01).float().mean() >= 0.99
    assert ((unlike - expected) / step).abs().max() < 12
    for result in (plain, fused):
        assert torch.equal(result.argmax(1), expected.argmax(1))
