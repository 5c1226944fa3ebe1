"""TorchScript objects without a form in a graph: converted here, or refused."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.graph import TensorType, Value
from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.export_time_values import Items, Maybe, Module
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number
from onnxexp_torchscript.operators.branches import kind_of


def create(interpreter: Interpreter, node: Any) -> list[Any]:
    """Create an object of a grad mode or the profiler; refuse the user's classes."""
    kind = str(node.output().type())
    if "grad_mode" not in kind and "autograd.profiler" not in kind:
        raise interpreter.refuse(
            f"the program makes an object of its own class {kind.rpartition('.')[2]}", "use tensors and functions"
        )
    return [interpreter.module(Module(None, f"{kind}.{node.output().unique()}"))]


def is_instance(interpreter: Interpreter, node: Any) -> list[Any]:
    """Answer isinstance for a value that is not optional."""
    ivalue = interpreter.args(node)[0]
    if isinstance(ivalue, Maybe):
        raise interpreter.refuse(
            "the program tests the type of a value at run time", "write the branch for the type that the export is for"
        )
    return [any(_kind(ivalue) == _KINDS.get(wanted.kind()) for wanted in node.tys("types"))]


_KINDS = {
    "TensorType": torch.Tensor, "ListType": Items, "TupleType": tuple, "DictType": dict, "StringType": str,
    "NoneType": type(None), "IntType": int, "FloatType": float, "BoolType": bool,
}  # fmt: skip


def _kind(ivalue: Any) -> type:
    if isinstance(ivalue, Number) or (isinstance(ivalue, Value) and isinstance(ivalue.type, TensorType)):
        return torch.Tensor
    return kind_of(ivalue) if python_numbers.is_number(ivalue) else str if isinstance(ivalue, str) else type(ivalue)


def python(interpreter: Interpreter, node: Any) -> list[Any]:
    """Refuse a torch.jit.ignore function or an autograd Function."""
    name = str(node.pyname()).removesuffix("()")
    raise interpreter.refuse(
        f"TorchScript leaves {name} to Python, and cannot look into it",
        'use capture="trace", which runs it, so that its operators (of an autograd Function: its symbolic) are in the graph',
    )


def mkldnn(interpreter: Interpreter, node: Any) -> list[Any]:
    raise interpreter.refuse(
        "a weight is in a layout of this machine's processor", "export the module before torch.jit.optimize_for_inference"
    )
