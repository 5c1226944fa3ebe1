"""`stride` of tensors that are contiguous in every call of the file."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.jit.jit_schemas import changes_shape


def stride(interpreter: Interpreter, tensor: Any, dim: Any = None) -> Any:
    """Return the strides of a tensor that is contiguous in every call of the file.

    Inputs are contiguous, since ONNX has no strides.
    """
    if tensor not in interpreter.root.inputs and not _is_made_contiguous(interpreter, tensor):
        raise interpreter.refuse("the program reads a stride, and ONNX has none", "compute it from sizes")
    rank = interpreter.rank(tensor) or 0
    if dim is None:
        return interpreter.items(stride(interpreter, tensor, index) for index in range(rank))
    strides = [
        interpreter.number("prim::max", python_numbers.maximum, [interpreter.size(tensor, index), 1])
        for index in range(dim % rank + 1, rank)
    ]
    return functools.reduce(lambda one, other: interpreter.number("aten::mul", operator.mul, [one, other]), strides, 1)


def _is_made_contiguous(interpreter: Interpreter, tensor: Any) -> bool:
    """Return whether a tensor comes from contiguous() or a contiguous clone()."""
    nodes = interpreter.graph.nodes
    asked = [node.args[-1] for node in nodes if tensor in node.outputs and node.op in ("aten::clone", "aten::contiguous")]
    written = any(changes_shape(node.op) and tensor is node.args[0] for node in nodes)
    return bool(asked) and asked[0] in (torch.contiguous_format, 0) and not written
