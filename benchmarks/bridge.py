"""The time that the torch bridge adds to a call of a C++ operator.

One tiny operator runs 256 times in a chain: through the torch bridge, and as ONNX Runtime's own kernels. The difference for each
call is the bridge's, with torch's dispatcher and kernel in it. torch.onnx is no peer: nothing runs such nodes of its files.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import numpy as np
import torch

import onnxexp
from onnxexp_custom_cpp import runtime

LIMIT = 30.0
"""The most microseconds that one call may add."""
_CALLS = 256
_SHAPE = (4, 4)


class _Chain(torch.nn.Module):
    """Products in a chain, which no optimizer joins: each adds a run-time value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(_CALLS):
            y = y * x
        return y


def measure(rounds: int = 200) -> dict[str, float]:
    """Measure the microseconds per call of aten::mul.

    The contenders are ONNX Runtime's kernel, the bridge, and torch itself.
    """
    torch.set_num_threads(1)
    model, x = _Chain(), torch.ones(_SHAPE)
    floor = _session(onnxexp.export(model, (x,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the nodes need torch
        bridged = _session(onnxexp.export(model, (x,), plugins=["custom-cpp"], fallback="torch"))
    feeds = {"x": x.numpy()}
    with torch.no_grad():
        runs: dict[str, Any] = {
            "ONNX Runtime's kernel": lambda: floor.run(None, feeds),
            "the torch bridge": lambda: bridged.run(None, feeds),
            "torch": lambda: model(x),
        }
        return {name: statistics.median(_seconds(run) for _ in range(rounds)) / _CALLS * 1e6 for name, run in runs.items()}


def _session(program: onnxexp.ONNXProgram) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.session(program.model, options=options)
    np.testing.assert_array_equal(session.run(None, {"x": np.ones(_SHAPE, np.float32)})[0], np.ones(_SHAPE))
    return session


def _seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
