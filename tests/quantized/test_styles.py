"""The styles of quantized graphs: QDQ, ONNX's operators, and ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onnxexp
from onnxexp_quantized import Quantized
from tests.quantized.decomposed import Model, Quantizer
from tests.quantized.runtime import operators
from tests.quantized.saturation import exact_sums

IMAGE, ROWS, CUBE = (2, 8, 6, 6), (4, 8), (2, 3, 8)
IN = Quantizer(0.02, 120)
OUT = Quantizer(0.05, 113)
STYLES = ["qdq", "qoperator", "ort"]


def exported(function: Callable[[Model, Tensor], Any], shape: tuple[int, ...], style: str, **options: Any) -> onnxexp.ONNXProgram:
    """Export in a style, and compare with eager at other batches, within one step."""
    torch.manual_seed(0)
    model = Model(function)
    for weight in (model.kernel, model.matrix):
        weight.scales.fill_(0.001)  # one step more in a layer is at most one step in the next
    program = onnxexp.export(
        model, (torch.randn(shape),), dynamic_shapes=({0: "batch"},), plugins=[Quantized(style=style), ...], **options
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    for batch in (1, 2, 5):
        x = torch.randn(batch, *shape[1:])
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=OUT.scale * 1.001)
    return program


def residual(model: Model, x: Tensor) -> Tensor:
    """Use every operator of the style "ort".

    The operators are convolution, sum, product, concatenation, pooling, activations and linear layers.
    """
    x = IN(x)
    y = OUT(F.relu(model.convolution(x)))
    y = OUT(y + OUT(model.convolution(y)))
    y = OUT(torch.cat([OUT(F.leaky_relu(y)), OUT(x * y)], 2))
    gate = Quantizer(1 / 256, 0)(torch.sigmoid(y))
    pooled = OUT(OUT(y * gate).mean([2, 3]))
    return model.linear(OUT(model.linear(pooled)))


EXPECTED = {
    "qdq": {"Conv", "Add", "Mul", "Concat", "LeakyRelu", "Sigmoid", "GlobalAveragePool", "Gemm"},
    "qoperator": {"QLinearConv", "MatMulInteger", "Add", "Mul", "Concat", "LeakyRelu", "Sigmoid", "GlobalAveragePool", "Cast"},
    "ort": {"QLinearConv", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearLeakyRelu", "QLinearSigmoid",
            "QLinearGlobalAveragePool", "QGemm"},
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("opset", [13, pytest.param(20, marks=pytest.mark.full), pytest.param(23, marks=pytest.mark.full)])
def test_a_network(style: str, opset: int) -> None:
    program = exported(residual, IMAGE, style, opset_version=opset)
    found = set(operators(program)) - {"Clip", "Flatten", "QuantizeLinear", "DequantizeLinear"}
    assert found == EXPECTED[style]
    domains = {each.domain for each in program.model_proto.opset_import}
    assert domains == ({"", "com.microsoft"} if style == "ort" else {""})
    if style == "ort":  # all of it computes with integers
        assert operators(program).count("QuantizeLinear") == 1
        assert operators(program).count("DequantizeLinear") == 0


PRODUCTS: dict[str, tuple[Callable[[Model, Tensor], Any], tuple[int, ...], dict[str, set[str]]]] = {
    "linear": (lambda model, x: OUT(model.linear(IN(x))), ROWS, {"qoperator": {"MatMulInteger"}, "ort": {"QGemm"}}),
    "linear, float": (lambda model, x: model.linear(IN(x)), ROWS, {"qoperator": {"MatMulInteger"}, "ort": {"QGemm"}}),
    "linear, rank 3": (
        lambda model, x: OUT(model.linear(IN(x))), CUBE, {"qoperator": {"MatMulInteger"}, "ort": {"MatMulIntegerToFloat"}}
    ),
    "no bias": (
        lambda model, x: OUT(F.linear(IN(x), model.matrix())), CUBE, {"qoperator": {"QLinearMatMul"}, "ort": {"QLinearMatMul"}}
    ),
    "no bias, float": (
        lambda model, x: F.linear(IN(x), model.matrix()), CUBE,
        {"qoperator": {"MatMulInteger"}, "ort": {"MatMulIntegerToFloat"}},
    ),
    "attention": (
        lambda model, x: OUT(IN(x) @ OUT(x.transpose(1, 2))), CUBE, {"qoperator": {"QLinearMatMul"}, "ort": {"QLinearMatMul"}}
    ),
}  # fmt: skip


@exact_sums
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("style", ["qoperator", "ort"])
def test_a_product(name: str, style: str) -> None:
    function, shape, expected = PRODUCTS[name]
    found = set(operators(exported(function, shape, style)))
    assert expected[style] <= found
    assert not {"Gemm", "MatMul", "Conv"} & found


def test_an_unknown_style_has_a_suggestion() -> None:
    with pytest.raises(onnxexp.OptionError, match=r"style is 'qoperators' \(did you mean 'qoperator'\?\); it may be 'qdq'"):
        Quantized(style="qoperators")


def test_ort_is_for_onnxruntime() -> None:
    with pytest.raises(onnxexp.PassError, match="style='ort' writes operators of ONNX Runtime, and the target is 'onnx'"):
        exported(residual, IMAGE, "ort", target="onnx")
