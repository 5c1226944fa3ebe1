"""Quantized inputs and outputs: integers, scale, zero point, as in torch.onnx."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx.verification import verify

pytest.importorskip("onnxexp_quantized")


def quantized(scale: float, zero_point: int, dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(2, 3), scale, zero_point, dtype)


class Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x.relu()}


class Quantize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.2, 3, torch.qint8)


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.ao.nn.quantized.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result


def types(values: Any) -> list[tuple[str, str, int]]:
    return [(value.name, value.dtype.name, len(value.shape)) for value in values]


@pytest.mark.parametrize("capture", ["trace", "export"])
def test_a_quantized_tensor_is_three_values(capture: str) -> None:
    graph = onnx_exporter.export(Relu(), (quantized(0.25, 128),), input_names=["x"], capture=capture).model.graph
    assert types(graph.inputs) == [("x", "UINT8", 2), ("x.scale", "DOUBLE", 0), ("x.zero_point", "INT64", 0)]
    assert types(graph.outputs) == [
        ("y.integers", "UINT8", 2),
        ("y.scale", "FLOAT", 0),
        ("y.zero_point", "UINT8", 0),
    ]


@pytest.mark.parametrize("capture", ["trace", "export"])
@pytest.mark.parametrize("model", [Relu(), Linear()], ids=["relu", "linear"])
def test_other_parameters_at_run_time(model: torch.nn.Module, capture: str) -> None:
    others = [(quantized(0.1, 3),), (quantized(1.5, 255),)]
    verify(model, (quantized(0.25, 128),), additional_test_inputs=others, capture=capture)


def test_a_result_that_the_model_quantizes() -> None:
    verify(Quantize(), (torch.randn(2, 3),), additional_test_inputs=[(torch.randn(2, 3) * 9,)], capture="trace")


def test_the_model_keeps_no_hooks() -> None:
    model = Linear()
    onnx_exporter.export(model, (quantized(0.25, 128),), capture="trace")
    assert not model._forward_hooks and not model._forward_pre_hooks


def test_a_captured_script_gets_no_hooks() -> None:
    program = onnx_exporter.export(torch.nn.Linear(3, 2), (torch.randn(2, 3),), capture="script")
    assert len(program.model.graph.inputs) == 1


class Flatten(torch.nn.Module):
    """Names no quantizing operator: only its input is quantized."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(x, 0)


@pytest.mark.parametrize("model", [Relu(), Linear(), Flatten()], ids=["relu", "linear", "flatten"])
def test_a_scripted_module_takes_and_returns_three_values(model: torch.nn.Module) -> None:
    scripted = torch.jit.script(model)
    others = [(quantized(0.1, 3),), (quantized(1.5, 255),)]
    verify(scripted, (quantized(0.25, 128),), additional_test_inputs=others)
    graph = onnx_exporter.export(scripted, (quantized(0.25, 128),), input_names=["x"]).model.graph
    assert types(graph.inputs)[1:] == [("x.scale", "DOUBLE", 0), ("x.zero_point", "INT64", 0)]


def test_a_result_that_a_scripted_module_quantizes() -> None:
    program = onnx_exporter.export(torch.jit.script(Quantize()), (torch.randn(2, 3),))
    assert [len(value.shape) for value in program.model.graph.outputs] == [2, 0, 0]
    verify(torch.jit.script(Quantize()), (torch.randn(2, 3),), additional_test_inputs=[(torch.randn(2, 3) * 9,)])
