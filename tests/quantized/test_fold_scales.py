"""weights/fold_scales.py: scales by which a model multiplies integer weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp._builder.dtypes import torch_dtype
from onnxexp_quantized import Quantized


class Scaled(nn.Module):
    """A product with integers, and scales of its columns in a given shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randint(-127, 128, (16, 24), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(shape) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.weight.to(x.dtype)) * self.scale


class Unfolded(Scaled):
    """A linear layer whose weight is scaled before the product."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.t().to(x.dtype) * self.scale)


def export(model: nn.Module, **options: Any) -> onnxexp.ONNXProgram:
    return onnxexp.export(model, (torch.randn(3, 16),), dynamic_shapes=({0: "batch"},), opset_version=20, **options)


@pytest.mark.parametrize("model", [Scaled(24), Unfolded(24, 1)], ids=lambda model: type(model).__name__)
def test_a_model_of_its_own_is_computed_with_floats(model: nn.Module) -> None:
    """ONNX Runtime rounds the activations where it finds a DequantizeLinear."""
    program = export(model)
    assert "DequantizeLinear" not in {node.op_type for node in program.model.graph}
    assert torch.int8 in {torch_dtype(each.dtype) for each in program.model.graph.initializers.values()}
    for batch in (1, 3, 7):
        x = torch.randn(batch, 16)
        expected = model(x)
        torch.testing.assert_close(program(x), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize(("shape", "folded"), [((24,), True), ((1, 24), True), ((1, 1, 24), False)])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_scales_of_columns(shape: tuple[int, ...], folded: bool, capture: str) -> None:
    """Scales with more axes than the product add axes to the result."""
    model = Scaled(*shape)
    program = export(model, capture=capture, plugins=[Quantized(int8_products="all"), ...])
    assert ("DequantizeLinear" in {node.op_type for node in program.model.graph}) is folded
    for batch in (1, 3, 7):
        x = torch.randn(batch, 16)
        expected = model(x)
        # ONNX Runtime's kernel for such weights rounds the activations
        torch.testing.assert_close(program(x), expected, rtol=0, atol=0.02 * float(expected.abs().max()))
