"""The integer kernels that ONNX Runtime makes of exported graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onnxexp
from tests.quantized.decomposed import Model, Quantizer
from tests.quantized.runtime import kernels, operators
from tests.quantized.saturation import exact_sums

IMAGE, ROWS = (2, 8, 6, 6), (4, 8)
IN = Quantizer(0.02, 120)
OUT = Quantizer(0.05, 113)
POSITIVE = Quantizer(0.04, 0)
SIGNED = Quantizer(0.04, -128, -128, 127, torch.int8)
NARROW = Quantizer(0.05, 60, 0, 127)
FUSED = {"QLinearConv", "QGemm", "QLinearAdd", "QuantizeLinear", "DequantizeLinear", "Transpose"}


def exported(function: Callable[[Model, Tensor], Any], shape: tuple[int, ...], **options: Any) -> onnxexp.ONNXProgram:
    """Export a model, and compare it with eager at other sizes, within one step."""
    torch.manual_seed(0)
    model, dynamic = Model(function), {0: "batch"} if len(shape) == 2 else {0: "batch", 2: "height"}
    program = onnxexp.export(model, (torch.randn(shape),), dynamic_shapes=(dynamic,), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for sizes in [shape, (1, *shape[1:]), (5, *shape[1:2], *[9 for _ in shape[2:3]], *shape[3:])]:
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=OUT.scale * 1.001)
    return program


@exact_sums
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("rank", [2, 3])
def test_the_last_layer_has_an_int32_bias(rank: int, capture: str, tmp_path: Path) -> None:
    shape = ROWS if rank == 2 else (2, 3, 8)
    torch.manual_seed(0)
    model = Model(lambda model, x: model.linear(IN(x)))
    program = onnxexp.export(model, (torch.randn(shape),), dynamic_shapes=({0: "batch"},), capture=capture)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert not {"Gemm", "MatMul"} & set(kernels(program, tmp_path))
    for rows in (1, 7):
        x = torch.randn(rows, *shape[1:])
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=IN.scale * 0.02)


def test_a_bias_that_int32_cannot_hold_stays_float() -> None:
    def function(model: Model, x: Tensor) -> Tensor:
        return model.linear(IN(x))

    model = Model(function)
    model.matrix.scales.fill_(1e-12)
    program = onnxexp.export(model, (torch.randn(ROWS),))
    assert [node.input[2] for node in program.model_proto.graph.node if node.op_type == "Gemm"] == ["bias"]


ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 1.25),
    "clamp": lambda x: torch.clamp(x, max=0.75),
    "two": lambda x: F.relu(F.hardtanh(x, -0.5, 1.25)),
}


@exact_sums
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("quantizer", [OUT, POSITIVE, SIGNED, NARROW])
def test_an_activation_before_a_quantizer(name: str, quantizer: Quantizer, tmp_path: Path) -> None:
    given = SIGNED if quantizer is SIGNED else IN  # ONNX Runtime fuses where both have one dtype
    program = exported(lambda model, x: quantizer(ACTIVATIONS[name](model.linear(given(x)))), ROWS)
    assert set(kernels(program, tmp_path)) <= FUSED | {"Clip"}
    assert operators(program).count("Clip") + operators(program).count("Relu") <= 1
    if name == "relu" and quantizer in (POSITIVE, SIGNED):
        assert "Clip" not in operators(program)


@exact_sums
def test_limits_are_integers() -> None:
    program = exported(lambda model, x: OUT(F.relu6(model.convolution(IN(x)))), IMAGE)
    (clip,) = [node for node in program.model_proto.graph.node if node.op_type == "Clip"]
    values = {
        each.name: onnx.numpy_helper.to_array(each).item() for each in program.model_proto.graph.initializer if not each.dims
    }
    assert [values[name] for name in clip.input[1:]] == [113, 113 + 120]


def test_no_integer_clip_before_opset_12() -> None:
    assert operators(exported(lambda model, x: OUT(F.relu(IN(x))), ROWS, opset_version=11)).count("Relu") == 1
    assert "Relu" not in operators(exported(lambda model, x: POSITIVE(F.relu(IN(x))), ROWS, opset_version=11))


def test_a_result_that_is_used_twice_keeps_its_relu() -> None:
    def function(model: Model, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.relu(model.linear(IN(x)))
        return OUT(y), y

    assert operators(onnxexp.export(Model(function), (torch.randn(ROWS),))).count("Relu") == 1


LAYOUTS: dict[str, Callable[[Model, Tensor], Tensor]] = {
    "max_pool": lambda model, x: OUT(F.max_pool2d(OUT(model.convolution(IN(x))), 2)),
    "max_pool before": lambda model, x: OUT(F.max_pool2d(F.relu(model.convolution(IN(x))), 2)),
    "reshape": lambda model, x: OUT(OUT(model.convolution(IN(x))).flatten(1)),
    "reshape before": lambda model, x: OUT(model.convolution(IN(x)).flatten(1)),
    "permute": lambda model, x: OUT(OUT(model.convolution(IN(x))).permute(0, 2, 3, 1)),
    "permute before": lambda model, x: OUT(model.convolution(IN(x)).permute(0, 2, 3, 1).unsqueeze(1)),
    "chain": lambda model, x: OUT(OUT(OUT(model.convolution(IN(x))).transpose(1, 2)).flatten(2).unsqueeze(1)),
    "slice": lambda model, x: OUT(model.convolution(IN(x)))[:, :, 1:],
    "twice": lambda model, x: OUT(OUT(OUT(model.convolution(IN(x))))),
}


@exact_sums
@pytest.mark.parametrize("name", LAYOUTS)
def test_data_moves_as_integers(name: str, tmp_path: Path) -> None:
    program = exported(lambda model, x: OUT(LAYOUTS[name](model, x)), IMAGE)
    assert operators(program).count("QuantizeLinear") == 2
    moves = {"Flatten", "MaxPool", "NhwcMaxPool", "Reshape", "Shape", "Concat", "Slice", "Squeeze", "Unsqueeze"}
    assert set(kernels(program, tmp_path)) <= FUSED | moves | {"Clip"}


@exact_sums
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_mean_over_space_runs_as_integers(keepdim: bool, tmp_path: Path) -> None:
    def function(model: Model, x: Tensor) -> Tensor:
        y = OUT(OUT(model.convolution(IN(x))).mean([-1, 2], keepdim=keepdim))
        return OUT(model.linear(y)) if not keepdim else y

    run = kernels(exported(function, IMAGE), tmp_path)
    assert "QLinearGlobalAveragePool" in run and "ReduceMean" not in run


WINDOWS = {
    "whole": lambda x: F.avg_pool2d(x, 2),
    "padded": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "oblong": lambda x: F.avg_pool2d(x, (1, 3), (2, 1)),
}


@exact_sums
@pytest.mark.parametrize("name", WINDOWS)
def test_averages_of_windows_are_convolutions(name: str, tmp_path: Path) -> None:
    program = exported(lambda model, x: OUT(WINDOWS[name](OUT(model.convolution(IN(x))))), IMAGE)
    assert kernels(program, tmp_path).count("QLinearConv") == 2


@pytest.mark.parametrize("settings", [{"ceil_mode": True}, {"padding": 1, "count_include_pad": False}])
def test_windows_that_do_not_count_all_stay_averages(settings: dict[str, Any]) -> None:
    assert "AveragePool" in operators(exported(lambda model, x: OUT(F.avg_pool2d(IN(x), 3, 2, **settings)), IMAGE))


@exact_sums
def test_a_residual_block_runs_as_integers(tmp_path: Path) -> None:
    def function(model: Model, x: Tensor) -> Tensor:
        y = IN(x)
        return OUT(F.relu(y + OUT(model.convolution(y))))

    assert set(kernels(exported(function, IMAGE), tmp_path)) <= FUSED | {"Clip"}


def test_models_that_do_not_quantize_stay_as_they_are() -> None:
    class Plain(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x).mean([2, 3])

    program = onnxexp.export(Plain(), (torch.randn(IMAGE),))
    assert operators(program) == ["Relu", "ReduceMean"]
    assert "onnxexp-plugin-quantized" not in program.model_proto.metadata_props[0].value


def test_signed_activations_become_unsigned(tmp_path: Path) -> None:
    def function(model: Model, x: Tensor) -> Tensor:
        y = SIGNED(F.hardtanh(model.convolution(SIGNED(x)), -1.0, 1.0))
        y = torch.cat([F.max_pool2d(y, 3, 1, 1), y], 1).flatten(1)
        return SIGNED(y)

    program = exported(function, IMAGE)
    assert "Conv" not in kernels(program, tmp_path)
    types = {each.type.tensor_type.elem_type for each in program.model_proto.graph.value_info}
    assert onnx.TensorProto.UINT8 in types and onnx.TensorProto.INT8 not in types


def test_signed_outputs_stay_signed() -> None:
    program = onnxexp.export(Model(lambda model, x: SIGNED.quantize(F.relu(x))), (torch.randn(ROWS),))
    assert program.model_proto.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT8


@pytest.mark.parametrize(
    ("function", "kernel"),
    [
        (lambda model, x: F.softmax(IN(x), -1), "Softmax"),
        (lambda model, x: F.avg_pool2d(IN(x), 3, padding=1, count_include_pad=False), "AveragePool"),
    ],
)
def test_integer_kernels_that_are_slow_and_inexact_are_not_used(
    function: Callable[[Model, Tensor], Tensor], kernel: str, tmp_path: Path
) -> None:
    program = exported(lambda model, x: OUT(function(model, x)), (2, 3, 8, 8))
    used = kernels(program, tmp_path)
    assert kernel in used and not {"QLinearSoftmax", "QLinearAveragePool"} & set(used)
