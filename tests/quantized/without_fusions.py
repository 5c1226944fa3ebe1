"""Run a file as it is written: ONNX Runtime's fusions round activations again."""

from __future__ import annotations

import onnxruntime
import torch
from torch import Tensor

import onnxexp


def run_unfused(program: onnxexp.ONNXProgram, *inputs: Tensor) -> Tensor:
    """Compute the program's first output without ONNX Runtime's optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto = program.model_proto
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {given.name: x.numpy() for given, x in zip(proto.graph.input, inputs, strict=True)}
    return torch.from_numpy(session.run(None, feeds)[0])
