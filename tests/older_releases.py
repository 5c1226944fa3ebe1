"""Tests that an older onnx or ONNX Runtime cannot pass: skipped, with the reason.

A test is skipped if its error names the feature that a release lacks. `FAULTS` lists the tests of results that a release computes
or fuses in another way.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import NamedTuple

import onnx
import onnxruntime
import pytest
from packaging.version import Version

ONNX, RUNTIME = (Version(package.__version__).release[:2] for package in (onnx, onnxruntime))
LIMITED = onnx.defs.onnx_opset_version() < 26 or RUNTIME < (1, 31)
"""Whether a test may meet a limit. Today's releases have none, so with them a failure that quotes one is a failure."""

_LIMITS = {
    re.compile(r"onnx \S+ knows opsets up to \d+"): "{}",
    re.compile(r"Opset (\d+) is under development"): "{runtime} does not take opset {}",
    re.compile(r"max supported IR version: (\d+)"): "{runtime} takes IR versions up to {}",
    re.compile(r"Could not find an implementation for (\w+\(\d+\))"): "{runtime} has no kernel of {} for the dtype",
    re.compile(
        r"Failed to find kernel for (com\.microsoft\.\w+)"
    ): "{runtime} makes {} of other nodes without a kernel for the dtype",
    re.compile(r"Error Node \((?:\S*/)?(\w+)\) has input size"): "{runtime} knows fewer inputs of {}",
}


class Fault(NamedTuple):
    """A difference of an older release.

    Attributes:
        last: The newest release with which it was seen.
        tests: A pattern of the ids of the tests that fail.
        reason: The behaviour of the release.
    """

    last: tuple[int, int]
    tests: str
    reason: str


_BORDER = "its AveragePool divides by another number at a border"
_FUSED = "it fuses other quantized layers into integer kernels"
FAULTS = {
    "onnx": (
        Fault((1, 17), r"core/test_binding\.py::test_the_lowest_ir_version", "it knows fewer versions of the IR"),
        Fault((1, 17), r"core/test_builder_schemas\.py::test_what_is_built_is_valid", "it has fewer operators"),
        Fault((1, 17), r"core/test_lowering\.py::test_everything_that_needs_another_opset", "it knows opsets up to 22"),
        Fault((1, 17), r"core/test_report\.py::test_(printed_graph|place_of_a_node)", "its parser does not read names of nodes"),
        Fault((1, 17), r"models/test_low_precision\.py::test_halves\[.*bfloat16-13", "its numpy_helper misreads bfloat16"),
    ),
    "onnxruntime": (
        Fault(
            (1, 23),
            r"aten/(nn/test_attention|passes/test_fuse_grouped_attention)\.py::test_(attention|heads\w*)"
            r"\[(constant_infinite_mask|float_mask|mask|masked-more1|grouped_masks?|half|repeated)-23",
            "its Attention gives NaN where a mask excludes every key, and takes no mask for each of the grouped heads",
        ),
        Fault((1, 23), r"fuse_mul_chains\.py::.*\[one weight for all", "its SimplifiedLayerNormalization takes no single weight"),
        Fault(
            (1, 23),
            r"local_response_norm-\d+-dynamic|test_average\[avg_pool.*, 5\)-22-dynamic"
            r"|\[avg_pool2d, divisor_override at the border",
            _BORDER,
        ),
        Fault((1, 23), r"custom_cpp/test_exports\.py::test_bodies_differ", "it runs one body for all overloads of a function"),
        Fault((1, 23), r"ort/test_cached_attention\.py::test_a_batch_of_zero", "it broadcasts a batch of zero wrongly in an If"),
        Fault((1, 23), r"test_own_biases\.py::test_a_part_of_a_weight\[10\]", "it inserts Round at opset 10, which has none"),
        Fault(
            (1, 23),
            r"quantization_report/test_report\.py::test_states_and_reasons\[linear-(16 bits|weights only|no zero point)"
            r"|test_torchao\.py::test_weights_have_their_width",
            _FUSED,
        ),
        Fault(
            (1, 20),
            r"test_fusion\.py::test_(a_residual|an_activation_before|averages_of|data_moves|signed_activations)"
            r"|test_report\.py::test_(states_and_reasons\[\w+-(static|relu)\]|a_model_against|weights_beside|the_text|the_page)"
            r"|docs/how-to/quantization-report\.md",
            _FUSED,
        ),
        Fault((1, 20), r"test_pooling\.py::test_average\[avg_pool.*True.*-9", _BORDER),
        Fault((1, 20), r"test_complex\.py::test_complex_numbers\[products", "its fusion of MatMul loses an input"),
        Fault((1, 20), r"test_ctc_loss\.py::test_ctc_loss\[float64", "it computes 1.5e307 for an infinite loss"),
        Fault((1, 20), r"test_dynamic\.py::test_a_linear_layer_with_relu_is_exact", "its ReduceMax of no elements fails"),
        Fault((1, 20), r"test_style_ort\.py::test_weights_alone\[120", "its MatMulNBits takes 4 bits only"),
        Fault((1, 23), r"third_party_functions\.py::test_onnxruntime\[Inverse", "its pack for torch.onnx has no linalg_inv"),
    ),
}  # fmt: skip
"""By package."""


def skip_faults(items: Iterable[pytest.Item]) -> None:
    """Skip the listed tests of the installed releases."""
    for package, installed in (("onnx", ONNX), ("onnxruntime", RUNTIME)):
        for fault in FAULTS[package]:
            if installed <= fault.last:
                mark = pytest.mark.skip(reason=f"{package} {'.'.join(map(str, installed))}: {fault.reason}")
                for item in items:
                    if re.search(fault.tests, item.nodeid):
                        item.add_marker(mark)


def limit(failure: str) -> str:
    """Return the limit of a release that a failure quotes, or ""."""
    for pattern, reason in _LIMITS.items():
        if found := pattern.search(failure):
            return reason.format(found[found.lastindex or 0], runtime=f"onnxruntime {onnxruntime.__version__}")
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    reason = limit(str(report.longrepr)) if LIMITED and report.failed else ""
    if reason:
        file, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (file, line or 0, f"Skipped: {reason}")
    return report
