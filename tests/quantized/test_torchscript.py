"""Quantized models in TorchScript."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

import onnxexp
from tests.quantized.static_models import Residual, Transformer, eager, fx, quantum

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def traced(model: nn.Module, x: Tensor) -> Any:
    return torch.jit.trace(model, x)


def scripted(model: nn.Module, _: Tensor) -> Any:
    return torch.jit.script(model)


def frozen(form: Callable[[nn.Module, Tensor], Any]) -> Callable[[nn.Module, Tensor], Any]:
    return lambda model, x: torch.jit.freeze(form(model, x))


def loaded(form: Callable[[nn.Module, Tensor], Any]) -> Callable[[nn.Module, Tensor], Any]:
    def of_file(model: nn.Module, x: Tensor) -> Any:
        file = io.BytesIO()
        torch.jit.save(form(model, x), file)
        file.seek(0)
        return torch.jit.load(file)

    return of_file


def close(program: onnxexp.ONNXProgram, model: Any, x: Tensor, quanta: int = 1) -> bool:
    return bool((program(x) - model(x)).abs().max() <= (quanta + 0.01) * quantum(model, x))


@pytest.mark.parametrize("capture", ["export", pytest.param("trace", marks=pytest.mark.full)])
@pytest.mark.parametrize("form", [traced, scripted, frozen(traced), loaded(scripted)])
def test_a_static_model(form: Any, capture: str) -> None:
    torch.manual_seed(0)
    model = form(eager(Residual(), X), X)
    program = onnxexp.export(model, (X,), dynamic_shapes=({0: "batch"},), capture=capture)
    assert close(program, model, torch.randn(5, 3, 8, 8))
    weights = [value.name for value in program.model.graph.initializers.values() if str(value.dtype) == "INT8"]
    assert {"first.weight", "second.weight", "linear.weight"} <= set(weights)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_sizes_of_a_trace(capture: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 16)
    model = traced(eager(Transformer(), x), x)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "batch", 1: "time"},), capture=capture)
    assert close(program, model, torch.randn(3, 7, 16))


@pytest.mark.parametrize("form", [traced, pytest.param(frozen(scripted), marks=pytest.mark.full)])
def test_a_dynamic_model(form: Any) -> None:
    torch.manual_seed(0)
    model = quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.LSTM(4, 6)).eval(), {nn.Linear, nn.LSTM})
    x = torch.randn(5, 2, 8)
    model = form(model, x)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "time", 1: "batch"},))
    x = torch.randn(7, 3, 8)
    torch.testing.assert_close(program(x)[0], model(x)[0], rtol=0, atol=0.01)  # torch quantizes the state of each step


class Controlled(nn.Module):
    """Loops, branches, lists and numbers of sizes."""

    def forward(self, x: Tensor) -> Tensor:
        q = torch.quantize_per_tensor(x, 0.05, 20, torch.quint8)
        if q.dim() != 4:
            raise ValueError(f"4 axes, not {q.dim()}")
        parts: list[Tensor] = []
        for i in range(3):
            if i % 2 == 0:
                parts.append(q[:, i].dequantize())
            else:
                parts.append(q[:, i].dequantize() * (x.size(0) * 2 + 1))
        return torch.cat(parts, 1)[:, : x.size(2) - 1] * int(x.size(3) * 0.5) - (x.size(2) // 2)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("form", [traced, scripted])
def test_control_flow(form: Any, capture: str) -> None:
    model = form(Controlled(), X)
    program = onnxexp.export(model, (X,), dynamic_shapes=({0: "batch", 2: "height"},), capture=capture)
    x = torch.randn(3, 3, 11, 8)
    torch.testing.assert_close(program(x), model(x))


class Outer(nn.Module):
    """A model with a part in TorchScript."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return -self.part(x)


def test_a_part_of_a_model() -> None:
    torch.manual_seed(0)
    model = Outer(traced(fx(Residual(), X), X))
    before = model.part
    program = onnxexp.export(model, (X,), dynamic_shapes=({0: "batch"},))
    assert model.part is before
    assert close(program, model, torch.randn(5, 3, 8, 8))


def test_quantized_inputs_of_a_function() -> None:
    x = torch.quantize_per_tensor(X, 0.05, 20, torch.quint8)

    def shifted(x: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), x.dequantize() + by

    for function in (torch.jit.script(shifted), torch.jit.trace(shifted, (x, X))):
        program = onnxexp.export(function, (x, X), output_names=["positive", "sum"])
        assert program.verify().ok
        assert {"quantized.x", "quantized.positive"} <= program.model.metadata_props.keys()


def test_errors_have_the_line() -> None:
    def maximum(x: Tensor) -> Tensor:
        return torch.cummax(torch.quantize_per_tensor(x, 0.05, 20, torch.quint8), 1)[0].dequantize()

    def raising(x: Tensor) -> Tensor:
        if x.size(0) > 2:
            raise ValueError("two images")
        return torch.quantize_per_tensor(x, 0.05, 20, torch.quint8).dequantize()

    line = inspect.getsourcelines(maximum)[1] + 1
    program = torch.jit.script(maximum)
    with pytest.raises(onnxexp.CaptureError, match=f"cummax is called with a quantized(?s:.)*test_torchscript.py, line {line}"):
        onnxexp.export(program, (X,))
    with pytest.raises(onnxexp.CaptureError, match="two images"):
        onnxexp.export(torch.jit.script(raising), (torch.randn(3, 3, 8, 8),))
