"""The operators that ONNX Runtime runs for a file."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime

import onnxexp


def kernels(program: onnxexp.ONNXProgram, folder: Path) -> list[str]:
    """List the operators that ONNX Runtime runs for the graph, after its fusions."""
    optimized = folder / "optimized.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(optimized)
    proto = program.model_proto.SerializeToString()
    onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(optimized).graph.node]


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    """List the operators of the file."""
    return [node.op_type for node in program.model_proto.graph.node]
