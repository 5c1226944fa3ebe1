"""Canonical calls: the name and arguments that torch.export has for the same call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxexp.graph import TensorType, Value
from onnxexp_torchscript.conversion.interpreter import Interpreter, Rewritten
from onnxexp_torchscript.jit import rnn_cells
from onnxexp_torchscript.jit.call_repair import strips_ones

_OF_TENSORS = {
    f"aten::{name}{place}.{scalar}": f"aten::{name}{place}.{tensor}"
    for name, scalar, tensor in [
        ("add", "Scalar", "Tensor"),
        ("sub", "Scalar", "Tensor"),
        ("mul", "Scalar", "Tensor"),
        ("div", "Scalar", "Tensor"),
        ("div", "Scalar_mode", "Tensor_mode"),
    ]
    for place in ("", "_")
}
"""Python's operators on a tensor and a number call the overload for two tensors."""


def _convolution(interpreter: Interpreter, name: str, args: list[Any]) -> Rewritten:
    """Replace the operator below conv2d and its kin."""
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups = args[:9]
    rank = len(stride)
    if transposed:
        overload = "input" if rank > 1 else ""
        target = f"aten::conv_transpose{rank}d" + (".input" if overload else "")
        return target, [input, weight, bias, stride, padding, output_padding, groups, dilation]
    return f"aten::conv{rank}d", [input, weight, bias, stride, padding, dilation, groups]


def _convolution_mode(interpreter: Interpreter, name: str, args: list[Any]) -> Rewritten:
    return f"aten::conv{len(args[3])}d.padding", args


def _to(interpreter: Interpreter, name: str, args: list[Any]) -> Rewritten:
    """Rewrite ``to``: without a new dtype it only copies, or does nothing."""
    if name == "aten::to.prim_Device":
        _, dtype, non_blocking, copy = args[1:5]
    elif name == "aten::to.prim_dtype":
        dtype, non_blocking, copy = args[1:4]
    else:
        other = args[1]
        dtype = other.type.dtype if isinstance(other, Value) and isinstance(other.type, TensorType) else None
        non_blocking, copy = args[2:4]
    if dtype is None:
        return ("aten::clone", [args[0], None]) if copy else ("aten::alias", [args[0]])
    return "aten::to.dtype", [args[0], dtype, non_blocking, copy, None]


def _to_device(interpreter: Interpreter, name: str, args: list[Any]) -> Rewritten:
    self, _, dtype, non_blocking, copy, memory_format = args
    return "aten::to.dtype", [self, dtype, non_blocking, copy, memory_format]


def _view(interpreter: Interpreter, name: str, args: list[Any]) -> Rewritten:
    """Keep the axes of an assigned value that are 1 long in the example only.

    torch drops these axes before the assignment ``x[mask] = y[mask]``, which broadcasts them. Any other view is the user's own.
    """
    tensor, sizes = args
    uses = interpreter.node.output().uses() if strips_ones(interpreter.node) else ()
    assigned = uses and all(use.user.kind() in _ASSIGNMENTS and use.offset == _VALUES for use in uses)
    dropped = (interpreter.rank(tensor) or 0) - len(sizes) if assigned and isinstance(sizes, list) else 0
    if any(isinstance(interpreter.size(tensor, axis), Value) for axis in range(dropped)):
        return "aten::alias", [tensor]
    return "aten::view", args


_ASSIGNMENTS = frozenset({"aten::index_put", "aten::index_put_"})
_VALUES = 2
"""The place of the values among the arguments of an assignment."""

REWRITTEN: dict[str, str | Callable[[Interpreter, str, list[Any]], Rewritten]] = {
    **rnn_cells.NAMES,
    **_OF_TENSORS,
    "prim::abs": "aten::abs",
    "aten::_convolution": _convolution,
    "aten::_convolution.deprecated": _convolution,
    "aten::_convolution_mode": _convolution_mode,
    "aten::to.prim_Device": _to,
    "aten::to.prim_dtype": _to,
    "aten::to.prim_other": _to,
    "aten::to.device": _to_device,
    "aten::view": _view,
}
"""The name under which torch.export has a call, or the function that makes its name and arguments."""
