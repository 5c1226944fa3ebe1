"""The opsets of the installed ONNX Runtime."""

from __future__ import annotations

import functools

from onnx import TensorProto, helper

from onnxexp._builder.onnx_schemas import ir_version
from onnxexp._version import MAX_OPSET, MIN_OPSET


@functools.lru_cache(maxsize=None)
def last_opset() -> int:
    """Find the highest opset that ONNX Runtime loads, by trial.

    Raises:
        ImportError: ONNX Runtime is not installed.
        RuntimeError: ONNX Runtime loads no model at all.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    node = helper.make_node("Identity", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    refusal: Exception | None = None
    for opset in range(MAX_OPSET, MIN_OPSET - 1, -1):
        model = helper.make_model(
            helper.make_graph([node], "probe", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version(opset),
        )  # fmt: skip
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - its error classes differ between versions
            refusal = error
            continue
        return opset
    raise RuntimeError(f"it loads no model at all: {refusal}")
