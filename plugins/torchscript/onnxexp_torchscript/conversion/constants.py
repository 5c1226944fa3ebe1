"""Constants and module attributes of TorchScript, as the interpreter's values."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp_torchscript.conversion.export_time_values import Module
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number
from onnxexp_torchscript.jit.jit_nodes import ATOMS

_WRAPPED = {torch.int64, torch.float64, torch.bool, torch.complex128}
"""The dtypes of the 0-d constants that stand for Python's numbers."""


def constant(interpreter: Interpreter, node: Any) -> list[Any]:
    """Convert a `prim::Constant`; a second conversion returns the same value."""
    value = node.output()
    if (number := value.unique()) in interpreter.env:
        return [interpreter.env[number]]
    held = value.toIValue()
    if type(held) in ATOMS:
        return [held]
    return [_literal(interpreter, value, held) if isinstance(held, torch.Tensor) else as_ivalue(interpreter, held, "")]


def _literal(interpreter: Interpreter, value: Any, tensor: torch.Tensor) -> Any:
    """Convert a tensor constant; one that wraps a Python number becomes that number."""
    if interpreter.traced and tensor.dim() == 0 and (tensor.dtype in _WRAPPED or _only_fills(value)):
        return Number(tensor.item(), tensor.dtype)
    return interpreter.constant(tensor)


def _only_fills(value: Any) -> bool:
    return all(use.user.kind() == "aten::fill_" for use in value.uses())


def as_ivalue(interpreter: Interpreter, held: Any, path: str) -> Any:
    """Convert an IValue of TorchScript to the value that the interpreter uses."""
    if isinstance(held, torch.Tensor):
        return interpreter.constant(held, path)
    if isinstance(held, list):
        return interpreter.items(as_ivalue(interpreter, element, f"{path}.{index}") for index, element in enumerate(held))
    if isinstance(held, tuple):
        return tuple(as_ivalue(interpreter, element, f"{path}.{index}") for index, element in enumerate(held))
    if isinstance(held, dict):
        return {key: as_ivalue(interpreter, element, f"{path}.{key}") for key, element in held.items()}
    if isinstance(held, (torch._C.ScriptModule, torch._C.ScriptObject, torch.jit.ScriptModule)):
        object = held._c if isinstance(held, torch.jit.ScriptModule) else held
        return interpreter.module(Module(object, path))
    return held
