"""`squeeze` of sizes that are known only at run time."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp import Value
from onnxexp_torchscript.abstract_tensor import AbstractTensor
from onnxexp_torchscript.interpreter import Interpreter
from onnxexp_torchscript.traced_types import recorded

__all__ = ["squeezed"]


def squeezed(interpreter: Interpreter, tensor: Any, dims: Any = None) -> Any:
    """Squeeze as the example does, and record the place for a warning.

    The exported model fails where the size of such an axis is not 1. Raises CaptureError where no trace decides.
    """
    fake = interpreter.sizes.of(tensor) if isinstance(tensor, Value) else None
    if not isinstance(fake, AbstractTensor) or not fake.dim():
        return NotImplemented
    listed = range(fake.dim()) if dims is None else dims if isinstance(dims, list) else [dims]
    axes = sorted({dim % fake.dim() for dim in listed})
    gone = _gone(interpreter, fake, axes)
    if all(isinstance(fake.shape[axis], int) for axis in gone):
        return NotImplemented
    interpreter.kept[f"squeeze removes axis {', '.join(map(str, gone))}, as for the example, at {interpreter.where}"] = None
    sizes = [size for axis, size in enumerate(fake.shape) if axis not in gone]
    made = interpreter.value("aten::squeeze.dims", AbstractTensor(fake.dtype, sizes))
    interpreter.append("aten::squeeze.dims", [tensor, gone], [made])
    return made


def _gone(interpreter: Interpreter, fake: AbstractTensor, axes: list[int]) -> list[int]:
    """Find the axes of size 1 in the example.

    For sizes that the example does not fix, the rank that a trace recorded decides.
    """
    sizes = {axis: fake.shape[axis] for axis in axes}
    free = [axis for axis, size in sizes.items() if isinstance(size, torch.SymInt) and free_unbacked_symbols(size)]
    gone = [axis for axis, size in sizes.items() if axis not in free and _hint(size) == 1]
    type_ = recorded(interpreter.node.output()) if interpreter.traced else None
    if free and type_ is None:
        what = "squeeze removes an axis only at size 1, and it is known only at run time whether an axis is 1 long here"
        raise interpreter.refuse(what, "select element 0 of the axis, or keep it")
    missing = 0 if type_ is None or type_.sizes is None else fake.dim() - len(type_.sizes) - len(gone)
    return sorted([*gone, *free]) if free and missing == len(free) else gone


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)
