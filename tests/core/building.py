"""Inputs for the builder's tests, and running a built model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from onnxexp import Builder, Tensor
from onnxexp._builder.builder import state_of
from onnxexp._lowering.assemble import assemble
from onnxexp._neutral_graph import ScalarType, TensorType
from onnxexp._serialize import to_proto

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def vector(op: Builder, dtype: torch.dtype = torch.float32, name: str = "x") -> Tensor:
    return op.input(name, TensorType(dtype, (2, 3)))


def number(op: Builder, kind: type = int, name: str = "n") -> Tensor:
    return op.input(name, ScalarType(kind, name))


def finish(op: Builder, results: Any) -> onnx.ModelProto:
    tensors = [results] if isinstance(results, Tensor) else list(results)
    model = to_proto(assemble(op, [(f"y{index}", tensor) for index, tensor in enumerate(tensors)]))
    onnx.checker.check_model(model, full_check=True)
    return model


def ready(op: Builder, results: Any) -> Callable[..., list[torch.Tensor]]:
    session = onnxruntime.InferenceSession(finish(op, results).SerializeToString())

    def call(**inputs: Any) -> list[torch.Tensor]:
        arrays = session.run(None, {name: np.asarray(value) for name, value in inputs.items()})
        return [torch.from_numpy(np.asarray(array)) for array in arrays]

    return call


def run(op: Builder, results: Any, **inputs: Any) -> list[torch.Tensor]:
    return ready(op, results)(**inputs)


def kinds(op: Builder) -> list[str]:
    return [node.op_type for node in state_of(op).scope.nodes]


def same(actual: Any, *expected: torch.Tensor) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)
