"""weights/fold_scales.py: scales of integer weights that the model multiplies by itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onnxexp


class Scaled(nn.Module):
    """A product with integers, and scales of its columns in a given shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randint(-127, 128, (16, 24), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(shape) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.weight.to(x.dtype)) * self.scale


@pytest.mark.parametrize(("shape", "folded"), [((24,), True), ((1, 24), True), ((1, 1, 24), False)])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_scales_of_columns(shape: tuple[int, ...], folded: bool, capture: str) -> None:
    """Scales with more axes than the product add axes to the result."""
    model, x = Scaled(*shape), torch.randn(3, 16)
    program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch"},), opset_version=20)
    assert ("DequantizeLinear" in {node.op_type for node in program.model.graph}) is folded
    for batch in (1, 3, 7):
        x = torch.randn(batch, 16)
        expected = model(x)
        # ONNX Runtime's kernel for such weights rounds the activations
        torch.testing.assert_close(program(x), expected, rtol=0, atol=0.02 * float(expected.abs().max()))
