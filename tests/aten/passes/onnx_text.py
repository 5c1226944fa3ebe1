"""Run a pass over a model in ONNX's text form, and compare the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

SIZES = {"N": 2, "M": 5}


def operators_after(text: str, run: Callable[[ir.Model], Any], opset: int = 20) -> list[str]:
    """List the operators of the main graph after a pass.

    The pass must keep all outputs, at sizes that no constant of the model has.
    """
    header = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(header + text), check_type=True, strict_mode=True)
    model = ir.from_proto(proto)
    run(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    feeds = _feeds(proto)
    for want, got in zip(_outputs(proto, feeds), _outputs(after, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return [node.op_type for node in model.graph]


def _feeds(proto: onnx.ModelProto) -> dict[str, Any]:
    generator, known = np.random.default_rng(0), {tensor.name for tensor in proto.graph.initializer}
    feeds: dict[str, Any] = {}
    for value in proto.graph.input:
        shape = [SIZES.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        numbers = generator.standard_normal(shape).astype(np.float32)
        if value.name not in known:
            feeds[value.name] = numbers if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT else np.asarray(numbers > 0)
    return feeds


def _outputs(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds))
