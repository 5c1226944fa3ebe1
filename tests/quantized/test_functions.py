"""The functions on stand-ins, against torch's functions on quantized tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onnxexp import CaptureError
from onnxexp_quantized.capture.functions import FUNCTIONS
from onnxexp_quantized.capture.model_patches import stand_ins
from onnxexp_quantized.capture.packed_weights import as_stand_in
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor
from tests.quantized import samples
from tests.quantized.samples import CONVOLUTION, EXACT, LINEAR_IN_FLOAT, OUT, PACKING, ROUNDED
from tests.quantized.samples.operands import Operands, Row, constants, inputs, quantize
from tests.quantized.saturation import exact_sums

WRITING = {name: rows for name, rows in OUT.items() if name.startswith("quantized::")}


def operands(dtype: torch.dtype) -> dict[str, Any]:
    return {**quantize(inputs(), dtype), **constants()}


def agree(expected: Any, actual: Any, tolerance: float) -> None:
    """Compare results: numbers and shapes exactly, integers within a tolerance."""
    assert type(expected).__name__ == type(actual).__name__ or isinstance(actual, QuantizedTensor)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for left, right in zip(expected, actual, strict=True):
            agree(left, right, tolerance)
    elif isinstance(expected, torch.Tensor) and expected.is_quantized:
        assert (actual.dtype, actual.qscheme()) == (expected.dtype, expected.qscheme())
        assert (actual.q_scale(), actual.q_zero_point()) == (pytest.approx(expected.q_scale()), expected.q_zero_point())
        assert actual.shape == expected.shape
        difference = (actual.integers.int() - expected.int_repr().int()).abs().max()
        assert difference <= tolerance
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance if expected.is_floating_point() else 0)
    else:
        assert actual == expected


@pytest.mark.parametrize("dtype", [torch.quint8, pytest.param(torch.qint8, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("name", "row", "tolerance"),
    [
        pytest.param(name, row, tolerance, id=f"{name}-{index}", marks=[exact_sums] if table is LINEAR_IN_FLOAT else [])
        for tolerance, table in ((0, EXACT | PACKING), (1, ROUNDED), (1, CONVOLUTION), (1, WRITING), (1e-5, LINEAR_IN_FLOAT))
        for name, rows in table.items()
        for index, row in enumerate(rows)
    ],
)
def test_a_function(name: str, row: Row, tolerance: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    real = operands(dtype)
    stand_in = {each: as_stand_in(x) if x.is_quantized else x for each, x in operands(dtype).items()}
    try:
        expected = row(Operands(real))
    except (RuntimeError, NotImplementedError):
        if dtype is torch.quint8:
            raise
        pytest.skip("torch has it for quint8 only")
    called = []
    find = FUNCTIONS.find
    monkeypatch.setattr(FUNCTIONS, "find", lambda name: called.append(name) or find(name))
    with stand_ins(torch.nn.Module(), FUNCTIONS):
        actual = row(Operands(stand_in))
        agree(expected, actual, tolerance)
    assert name in called or name in ("dequantize", "slice", "size", "unbind", "data")


@pytest.mark.parametrize("name", ["cat", "mean", "hardtanh", "leaky_relu"])
def test_a_quantized_out_is_refused(name: str) -> None:
    """torch's kernels keep the scale of `out`, overwrite it, or leave `out` as it was."""
    given = {each: as_stand_in(x) if x.is_quantized else x for each, x in operands(torch.quint8).items()}
    with stand_ins(torch.nn.Module(), FUNCTIONS), pytest.raises(CaptureError, match="use what it returns"):
        OUT[name][0](Operands(given))


def test_each_function_has_a_row() -> None:
    rows = {name for table in samples.__all__ for name in vars(samples)[table]}
    unpacking = {name for name in FUNCTIONS.names() if "_unpack" in name}  # the rows of packing call these
    assert {*FUNCTIONS.names()} - unpacking <= rows


def test_dynamo_traces_the_functions() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = QuantizedTensor(x, 0.1, 3, torch.quint8)
            return torch.cat([x, x]).integers

    with stand_ins(Doubled(), FUNCTIONS):
        program = torch.export.export(Doubled(), (torch.ones(2, dtype=torch.uint8),), strict=True)
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [torch.ops.aten.cat.default]
