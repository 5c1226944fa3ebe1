"""A quantized weight that ends as float in the file is an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_quantized import Quantized
from tests.quantized.decomposed import Model, Quantizer
from tests.quantized.saturation import exact_sums

IN = Quantizer(0.02, 120)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return Model(lambda model, x: model.linear(IN(x)))


def folding() -> onnxexp.SymbolicTable:
    """Build a symbolic that computes a dequantized weight at export."""
    table = onnxexp.SymbolicTable("quantized_decomposed")

    @table("dequantize_per_channel")
    def dequantize(op: onnxexp.Builder, input: Any, scales: Any, *_: Any) -> onnxexp.Tensor:
        return op.constant(input.const * scales.const.reshape(-1, 1), torch.float32)

    return table


def test_an_integer_weight_passes() -> None:
    model = linear()
    for style in ("qdq", "qoperator", "ort"):
        program = onnxexp.export(model, (torch.randn(4, 8),), plugins=[Quantized(style=style), ...])
        assert "check-weights" in {name.rpartition("/")[2] for name in program.pass_timings}


def test_a_dequantized_weight_is_an_error() -> None:
    with pytest.raises(onnxexp.PassError, match=r"weights with as many elements \('matrix.integers'\) one is missing") as error:
        onnxexp.export(linear(), (torch.randn(4, 8),), plugins=[folding(), ...])
    assert "quantized/check-weights" in str(error.value)


def test_it_is_written_where_asked_for() -> None:
    program = onnxexp.export(linear(), (torch.randn(4, 8),), plugins=[folding(), ...], skip_passes=["quantized/check-weights"])
    assert not any(value.dtype is not None and value.dtype.name == "INT8" for value in program.model.graph.initializers.values())


@exact_sums
def test_a_float_weight_of_the_same_size_is_no_error() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quantized, self.plain = linear(), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.plain(self.quantized(x))

    model = Both().eval()
    x = torch.randn(4, 8)
    torch.testing.assert_close(onnxexp.export(model, (x,))(x), model(x), rtol=1e-3, atol=1e-3)


def test_an_ordinary_table_of_integers_may_be_folded() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(8, dtype=torch.uint8))

        def forward(self, x: Tensor) -> Tensor:
            return IN(x) * self.table.float()

    model, x = Table(), torch.randn(4, 8)
    torch.testing.assert_close(onnxexp.export(model, (x,))(x), model(x), rtol=0, atol=7 * IN.scale)
