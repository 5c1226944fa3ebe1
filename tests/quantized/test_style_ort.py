"""style="ort": weights alone, and activations that are quantized at run time."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization import quantize_dynamic
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers the operators

import onnxexp
from onnxexp_quantized import Quantized
from onnxexp_quantized.passes.graph_editor import GraphEditor
from onnxexp_quantized.styles.products import convert_weight_only
from tests.quantized.runtime import operators
from tests.quantized.saturation import exact_sums


class Grouped(nn.Module):
    """A linear layer with a scale for each group of a row, of 4 or 8 bits."""

    def __init__(self, highest: int, group: int, columns: int, zero_points: bool, bias: bool) -> None:
        super().__init__()
        groups = columns // group
        self.register_buffer("integers", torch.randint(-highest, highest, (24, columns), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(24, groups) / highest / columns**0.5)
        zeros = torch.randint(-3, 4, (24, groups)) if zero_points else torch.zeros(24, groups)
        self.register_buffer("zeros", zeros.to(torch.int8))
        self.bias = nn.Parameter(torch.randn(24), requires_grad=False) if bias else None
        self.settings = (-highest - 1, highest, torch.int8, group, torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        dequantize = torch.ops.quantized_decomposed.dequantize_per_channel_group
        return nn.functional.linear(x, dequantize(self.integers, self.scales, self.zeros, *self.settings), self.bias)


@pytest.mark.parametrize("shape", [(4, 96), (2, 3, 96)])
@pytest.mark.parametrize(
    ("highest", "group", "zero_points", "bias"), [(7, 32, False, True), (7, 32, True, False), (120, 16, True, True)]
)
def test_weights_alone(shape: tuple[int, ...], highest: int, group: int, zero_points: bool, bias: bool) -> None:
    torch.manual_seed(0)
    model = Grouped(highest, group, 96, zero_points, bias).eval()
    plugins = [Quantized(style="ort"), ...]
    program = onnxexp.export(model, (torch.randn(shape),), dynamic_shapes=({0: "batch"},), opset_version=21, plugins=plugins)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert operators(program) == ["MatMulNBits"]
    (node,) = program.model_proto.graph.node
    settings = {each.name: each.i for each in node.attribute}
    assert (settings["bits"], settings["block_size"]) == (4 if highest == 7 else 8, group)
    for batch in (1, 5):
        x = torch.randn(batch, *shape[1:])
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=0.03)  # activations have 8 bits


@pytest.mark.parametrize(("summand", "fused"), [((24,), True), ((4, 24), False), ((1,), False)])
def test_only_a_vector_of_the_columns_is_a_bias(summand: tuple[int, ...], fused: bool) -> None:
    """MatMulNBits takes no other summand of a Gemm, which another plugin may have written."""
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
              for name, shape in (("x", (4, 32)), ("c", summand), ("y", (4, 24)))]  # fmt: skip
    weights = {"w": torch.randint(-7, 7, (32, 24), dtype=torch.int8), "s": torch.rand(24)}
    initializers = [onnx.numpy_helper.from_array(tensor.numpy(), name) for name, tensor in weights.items()]
    nodes = [
        onnx.helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        onnx.helper.make_node("Gemm", ["x", "d", "c"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:2], values[2:], initializers)
    model = ir.from_proto(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]))
    assert convert_weight_only(model.graph.node(-1), GraphEditor(model)) is fused


@exact_sums
@pytest.mark.parametrize(("dynamic", "operator"), [("ort", "DynamicQuantizeMatMul"), ("exact", "MatMulIntegerToFloat")])
def test_activations_at_run_time(dynamic: str, operator: str) -> None:
    torch.manual_seed(0)
    model = quantize_dynamic(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval(), {nn.Linear})
    plugins = [Quantized(style="ort", dynamic=dynamic), ...]
    program = onnxexp.export(model, (torch.randn(4, 16),), dynamic_shapes=({0: "batch"},), plugins=plugins)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert operators(program).count(operator) == 2
    assert not {"MatMulInteger", "Gemm", "MatMul", "DynamicQuantizeLinear"} & set(operators(program))
    for batch in (1, 7):
        x = torch.randn(batch, 16)
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=1e-5 if dynamic == "exact" else 0.02)
