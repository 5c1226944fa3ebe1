"""Test the operators on quantized tensors.

The quick tier traces some samples; the full tier exports all of them through both frontends.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.quantized.saturation import saturates

from . import quantized
from .judging import Judge, Result
from .known import KNOWN_QUANTIZED
from .page import OURS
from .quantized import ROWS, UNSAMPLED, dtypes_of, operators, registered, sample_of, samples
from .quantized_page import quantized_page

OPSET = 21
FINE = ("pass", "eager")
REFUSED = ("capture", "unsupported")
QUICK = (
    "quantized::add of ROUNDED, 0",
    "mean of ROUNDED, 2",
    "slice of EXACT, 2",
    "quantized::conv_transpose2d of CONVOLUTION, 0",
    "quantized::conv1d_dynamic of RUN_TIME, 1",
    "quantized::conv3d_dynamic of RUN_TIME, 0",
    "quantized::embedding_bag_byte_rowwise_offsets of EMBEDDING, 1",
    "quantized::embedding_bag_4bit_rowwise_offsets of EMBEDDING, 0",
    "quantized::linear_prepack_fp16 of RUN_TIME, 0",
)
"""Samples whose captures have a code of their own."""


def rows() -> list[Any]:
    """Return the quick rows and the full ones; opset 12 has no scale for each channel."""
    ways = (("export", "quint8", OPSET), ("trace", "qint8", OPSET), ("trace", "quint8", 12))
    full = [pytest.param(name, *way, marks=pytest.mark.full) for name in ROWS for way in ways]
    return [(name, "trace", "quint8", OPSET) for name in QUICK] + full


def refused() -> set[str]:
    """Return the samples of the operators that are known to fail."""
    return {name for op in KNOWN_QUANTIZED for name in quantized.names_of(op)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "exporter", "dtype", "opset"), rows())
def test_a_sample(name: str, exporter: str, dtype: str, opset: int) -> None:
    result = Judge(sample_of(ROWS[name], name, dtype)).judge(exporter, opset)
    if result.outcome == "wrong" and saturates():
        pytest.skip(f"products of 8-bit integers saturate on this CPU: {result.detail}")
    if result.outcome in REFUSED:
        assert name in refused(), result.detail
    else:
        assert result.outcome in FINE, f"{result.outcome}: {result.detail}"


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", KNOWN_QUANTIZED)
def test_a_known_failure_still_fails(op: str) -> None:
    """Some sample fails with an error of ours; working operators leave the list."""
    found = [Judge(each).judge("trace", OPSET) for dtype in dtypes_of(op) for each in samples(op, dtype, len(ROWS))]
    assert {result.outcome for result in found} & {*REFUSED}, f"{op} works now: remove it from known.py"


@pytest.mark.full
def test_every_operator_of_torch_has_a_sample_or_a_reason() -> None:
    assert {*registered()} <= {*operators(), *UNSAMPLED}
    assert not {*operators()} & {*UNSAMPLED}


def result(op: str, outcome: str, exporter: str = "export", detail: str = "") -> Result:
    return Result(op, "quint8", 0, OPSET, exporter, outcome, detail)


def test_the_page() -> None:
    page = quantized_page(
        [
            *(result("quantized::add", "pass", exporter) for exporter in OURS[:2]),
            *(result("aten::resize_", "capture", exporter) for exporter in OURS[:2]),
            result("aten::permute", "pass"),
            result("quantized::linear_prepack_legacy", "eager", detail="RuntimeError: outdated"),
        ]
    )
    assert "| quantized::add | quint8 | yes | yes |  |" in page
    assert "| aten::resize_ | quint8 | no: capture | no: capture | a write that changes the size of a tensor |" in page
    assert "| Other ATen operators on quantized tensors | 1 | 1 |  |  |  |" in page
    assert "| quantized::linear_prepack_legacy | torch: outdated |" in page
    assert "| quantized::mul | it has no sample yet |" in page
