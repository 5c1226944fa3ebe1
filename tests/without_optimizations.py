"""Run every model of the tests also without ONNX Runtime's optimizations.

Load this pytest plugin by `python -m pytest -p tests.without_optimizations tests/models`. A test fails where ONNX Runtime's
default settings change a result by more than its rounding. The plugin leaves out models that draw random numbers, and the tests
in CHANGED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnxruntime
import pytest
import torch

from onnxexp._model.onnxruntime_session import Session

_ROUNDING = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the largest element; 1e-4 for other dtypes, since float64 convolutions are computed as float32."""
_RANDOM = ("Bernoulli", "Dropout", "Multinomial", "Random")

_STEP = "an integer kernel rounds biases and ties otherwise, so that a few numbers are at the step beside"
_BEHIND = "such steps inside the model add up, or move the numbers that float layers compute from them"
CHANGED: Mapping[str, str] = {
    "tests/quantized/test_dynamic.py::test_convolutions": (
        "ONNX Runtime rounds the bias of a convolution between DequantizeLinear and QuantizeLinear to an integer, which moves a "
        "few numbers to the step beside; without optimizations each number is torch's"
    ),
    "tests/quantized/test_dynamic.py::test_onnx_runtimes_own_quantization_keeps": "its own file rounds the biases, too",
    "tests/quantized/test_torchao.py::test_quantized_layers": "products with integer weights round the activations",
    "tests/quantized/test_fold_scales.py::test_the_scales_of_columns": "products with integer weights round the activations",
    "tests/quantized/test_fusion.py::test_a_mean_over_space_runs_as_integers": _STEP,
    "tests/quantized/test_fusion.py::test_a_residual_block_runs_as_integers": _STEP,
    "tests/quantized/test_fusion.py::test_averages_of_windows_are_convolutions": _STEP,
    "tests/quantized/test_fusion.py::test_data_moves_as_integers": _STEP,
    "tests/quantized/test_fusion.py::test_limits_are_integers": _STEP,
    "tests/quantized/test_fusion.py::test_no_integer_clip_before_opset_12": _BEHIND,
    "tests/quantized/test_inputs_and_outputs.py::test_quantized_outputs": _STEP,
    "tests/quantized/test_pt2e.py::test_exported_programs": _BEHIND,
    "tests/quantized/test_qat.py::test_prepared_models": _BEHIND,
}
"""The beginnings of tests' names, and why the results change there."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Compare the results of every run in a test."""
    changed: list[str] = []
    run = Session.run

    def both(session: Session, feeds: Mapping[str, Any]) -> list[Any]:
        results = run(session, feeds)
        if not _is_random(session) and not item.nodeid.startswith(tuple(CHANGED)):
            pairs = zip(results, run(_plain(session), feeds), strict=True)
            changed.extend(text for pair in pairs if isinstance(pair[0], torch.Tensor) and (text := _difference(*pair)))
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "run", both)
        result = yield
    assert not changed, f"ONNX Runtime's optimizations change results: {'; '.join(changed)}"
    return result


def _is_random(session: Session) -> bool:
    return any(node.op_type.startswith(_RANDOM) for node in session._model.graph.all_nodes())


def _plain(session: Session) -> Session:
    """Open a session of the same model without optimizations."""

    def prepare(model: Any, options: Any) -> Any:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return session._prepare(model, options)

    return Session(session._model, prepare)


def _difference(one: torch.Tensor, other: torch.Tensor) -> str:
    if one.shape != other.shape:
        return f"shapes {list(one.shape)} and {list(other.shape)}"
    if not one.dtype.is_floating_point:
        return "" if torch.equal(one, other) else f"{int((one != other).sum())} of {one.numel()} {one.dtype} numbers"
    exact = other.double()  # few kernels take float8
    finite = exact[exact.isfinite()].abs()
    most = _ROUNDING.get(one.dtype, 1e-4) * (float(finite.max()) if finite.numel() else 0.0)
    close = torch.isclose(one.double(), exact, rtol=0, atol=most, equal_nan=True)
    return "" if bool(close.all()) else f"{int((~close).sum())} of {one.numel()} {one.dtype} numbers"
