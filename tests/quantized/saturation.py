"""CPUs on which ONNX Runtime's products of 8-bit integers are not exact.

An x86 CPU without VNNI adds two products of uint8 and int8 in 16 bits, which saturate. ONNX Runtime uses these instructions, and
so does torch's engine fbgemm, in other orders: their results differ where the sums are large.
"""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnxruntime
import pytest


@functools.cache
def saturates() -> bool:
    """Return whether a sum of two products that needs 17 bits is wrong on this CPU."""
    a, b = np.full((1, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    node = onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    given = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, a.shape)
    found = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)
    graph = onnx.helper.make_graph([node], "g", [given], [found], [onnx.numpy_helper.from_array(b, "b")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return bool((session.run(None, {"a": a})[0] != a.astype(int) @ b.astype(int)).any())


exact_sums = pytest.mark.skipif(saturates(), reason="products of 8-bit integers saturate on this CPU, which lacks VNNI")
"""Skips a test of sums that saturate on such a CPU."""
