"""target="onnx": operators as specified, without changes for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx.reference import ReferenceEvaluator

import onnxexp
from onnxexp._model.onnxruntime_session import Session

torch.manual_seed(0)


class Row(NamedTuple):
    """A call, and the operators of its graph where the target is ONNX itself."""

    fn: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    emits: set[str]
    opset: int = 20


X = torch.randn(2, 3, 6, 6, dtype=torch.float64)
W = torch.randn(4, 3, 3, 3, dtype=torch.float64)
Q = torch.randn(2, 3, 5, 4, dtype=torch.float64)
LSTM = torch.nn.LSTM(3, 4, dtype=torch.float64).requires_grad_(False)
MASK = torch.rand(2, 1, 5, 5) < 0.7
INDEX = torch.randint(0, 3, (2, 3, 6, 6))


ROWS = {
    "erf": Row(torch.erf, (X,), {"Erf"}),
    "acos": Row(lambda x: torch.acos(torch.sin(x)), (X,), {"Sin", "Acos"}),
    "elu": Row(F.elu, (X,), {"Elu"}),
    "conv": Row(lambda x: F.conv2d(x, W), (X,), {"Conv"}),
    "avg_pool": Row(lambda x: F.avg_pool2d(x, 2), (X,), {"AveragePool"}),
    "maximum": Row(torch.maximum, (torch.arange(5, dtype=torch.int16), torch.full((5,), 2, dtype=torch.int16)), {"Max"}),
    "where": Row(torch.where, (X > 0, X > 1, X < 1), {"Where"}),
    "nonzero": Row(torch.nonzero, (X,), {"NonZero", "Transpose"}),
    "circular": Row(lambda x: F.pad(x, (1, 2, 3, 0), mode="circular"), (X,), {"Pad"}),
    "nearest": Row(lambda x: F.interpolate(x, scale_factor=2), (X,), {"Resize"}),
    "bilinear": Row(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (X,), {"Resize"}),
    "grid_sample": Row(
        lambda x, g: F.grid_sample(x, g, align_corners=False), (X, torch.rand(2, 4, 4, 2).double()), {"GridSample"}, 16
    ),
    "col2im": Row(lambda x: F.fold(x, (4, 4), 2), (torch.randn(2, 12, 9, dtype=torch.float64),), {"Col2Im"}),
    "scatter_add": Row(lambda x, i, s: x.scatter_add(1, i, s), (X.half(), INDEX, X.half()), {"ScatterElements"}),
    "lstm": Row(lambda x: LSTM(x)[0], (torch.randn(5, 2, 3, dtype=torch.float64),), {"LSTM", "Squeeze"}),
    "fft": Row(lambda x: torch.view_as_real(torch.fft.fft(x)), (X,), {"DFT"}),
    "ifft": Row(lambda x: torch.fft.ifft(torch.fft.fft(x)).real, (X,), {"DFT"}),
    "irfft": Row(lambda x: torch.fft.irfft(torch.fft.rfft(x)), (X,), {"DFT"}, 18),
    "attention": Row(lambda q, m: F.scaled_dot_product_attention(q, q, q, m), (Q, MASK), {"Attention"}, 23),
    "silu": Row(F.silu, (X.float(),), {"Swish"}, 24),
}
ONLY_AMONG_OTHERS = ("fft", "ifft", "irfft")


class Model(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.fn(*inputs)


def exported(row: Row, **options: Any) -> onnxexp.ONNXProgram:
    return onnxexp.export(Model(row.fn), row.inputs, opset_version=row.opset, **options)


def operators(program: onnxexp.ONNXProgram) -> set[str]:
    return {node.op_type for node in program.model.graph}


@pytest.mark.parametrize("name", ROWS)
def test_the_specification(name: str) -> None:
    row = ROWS[name]
    program = exported(row, target="onnx")
    assert operators(program) >= row.emits if name in ONLY_AMONG_OTHERS else operators(program) == row.emits
    model = program.model_proto
    onnx.checker.check_model(model, full_check=True)
    feeds = {slot.name: tensor.numpy() for slot, tensor in zip(model.graph.input, row.inputs, strict=True)}
    (result,) = ReferenceEvaluator(model).run(None, feeds)
    expected = row.fn(*row.inputs)
    torch.testing.assert_close(
        torch.as_tensor(result), expected, rtol=2e-3 if expected.dtype == torch.float16 else 1e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", ROWS)
def test_the_default_runs_in_onnx_runtime(name: str) -> None:
    row = ROWS[name]
    program = exported(row)
    assert not operators(program) >= row.emits or operators(program) - row.emits, "there is nothing that the target changes"
    (result,) = Session(program.model).run(dict(zip((slot.name for slot in program.model.graph.inputs), row.inputs, strict=True)))
    torch.testing.assert_close(result, row.fn(*row.inputs), rtol=2e-3 if result.dtype == torch.float16 else 2e-5, atol=1e-5)


def test_what_no_operator_takes_is_cast_for_either() -> None:
    """Inputs are cast for Conv, which the specification defines for floats only."""
    row = Row(lambda x: F.conv2d(x, W.long()), (X.long(),), set())
    assert operators(exported(row, target="onnx")) >= {"Cast", "Conv"}


def test_the_target_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXEXP_TARGET", "onnx")
    assert operators(exported(ROWS["erf"])) == {"Erf"}
    assert "Cast" in operators(exported(ROWS["erf"], target="onnxruntime"))
    with pytest.raises(onnxexp.OptionError, match='target is \'tflite\'; expected "onnxruntime" or "onnx"'):
        exported(ROWS["erf"], target="tflite")
