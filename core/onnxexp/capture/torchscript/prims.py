"""TorchScript's own nodes, and its operators on Python's objects: lists, tuples, dicts, strings, properties of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onnxexp.capture.torchscript import numbers
from onnxexp.capture.torchscript.numbers import Number
from onnxexp.graph import ScalarType, TensorType, Value

if TYPE_CHECKING:
    from onnxexp.capture.torchscript.interpreter import Interpreter

__all__ = ["HANDLERS", "PYTHON"]


class Module:
    """A ScriptModule (or another object of TorchScript's) and its path."""

    def __init__(self, object: Any, path: str = "") -> None:
        self.object = object
        self.path = path


def _constant(interpreter: Interpreter, node: Any) -> list[Any]:
    output = node.output()
    if not list(node.attributeNames()):
        return [None]
    value = output.toIValue()
    return [interpreter.literal(value) if isinstance(value, torch.Tensor) else value]


def _list(interpreter: Interpreter, node: Any) -> list[Any]:
    return [list(interpreter.args(node))]


def _tuple(interpreter: Interpreter, node: Any) -> list[Any]:
    return [tuple(interpreter.args(node))]


def _dict(interpreter: Interpreter, node: Any) -> list[Any]:
    args = interpreter.args(node)
    return [dict(zip(args[::2], args[1::2], strict=True))]


def _unpack(interpreter: Interpreter, node: Any) -> list[Any]:
    (pieces,) = interpreter.args(node)
    count = len(list(node.outputs()))
    if isinstance(pieces, Value):
        raise interpreter.refuse("a list of unknown length is unpacked", "index it instead")
    if len(pieces) != count:
        raise interpreter.refuse(
            f"a list of {len(pieces)} elements is unpacked into {count}", "let the number of pieces not depend on a dynamic size"
        )
    return list(pieces) if count != 1 else [pieces[0]]


def _same(interpreter: Interpreter, node: Any) -> list[Any]:
    return [interpreter.args(node)[0]]


def _number_to_tensor(interpreter: Interpreter, node: Any) -> list[Any]:
    (number,) = interpreter.args(node)
    return [number if isinstance(number, Number) else numbers.dress(number)]


def _nothing(interpreter: Interpreter, node: Any) -> list[Any]:
    return [None]


HANDLERS: dict[str, Callable[[Interpreter, Any], list[Any]]] = {
    "prim::Constant": _constant,
    "prim::ListConstruct": _list,
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": _unpack,
    "prim::TupleUnpack": _unpack,
    "prim::NumToTensor": _number_to_tensor,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
    "prim::Print": _nothing,
}
"""By the node's kind; each gives what the node's outputs are."""


def _size(interpreter: Interpreter, tensor: Any, dim: Any = None) -> Any:
    if isinstance(tensor, Value) and dim is None:
        rank = interpreter.rank(tensor)
        if rank is None:
            raise interpreter.refuse("the rank of a tensor whose sizes are asked for is not known", "ask for one size")
        return [interpreter.size(tensor, index) for index in range(rank)]
    return [] if dim is None else interpreter.size(tensor, dim)


def _dim(interpreter: Interpreter, tensor: Any) -> Any:
    rank = interpreter.rank(tensor)
    if rank is None:
        raise interpreter.refuse("the rank of a tensor that is asked for is not known", "give branches and rounds one rank")
    return rank


def _numel(interpreter: Interpreter, tensor: Any) -> Any:
    return interpreter.emit("aten::sym_numel", [tensor])


def _dtype(tensor: Any) -> torch.dtype | None:
    if isinstance(tensor, Number):
        return tensor.dtype
    return tensor.type.dtype if isinstance(tensor, Value) and isinstance(tensor.type, TensorType) else None


def _of_dtype(test: Callable[[torch.dtype], Any]) -> Callable[..., Any]:
    def python(interpreter: Interpreter, tensor: Any) -> Any:
        dtype = _dtype(tensor)
        if dtype is None:
            raise interpreter.refuse("the dtype of a tensor that is asked for is not known", "cast it first")
        return test(dtype)

    return python


def _length(interpreter: Interpreter, of: Any) -> Any:
    if isinstance(of, Value):
        return interpreter.size(of, 0) if isinstance(of.type, TensorType) else NotImplemented
    return len(of)


def _item(interpreter: Interpreter, tensor: Any, index: Any) -> Any:
    if isinstance(index, Value) or isinstance(tensor, Value):
        return NotImplemented
    return tensor[index]


def _implicit(interpreter: Interpreter, tensor: Any) -> Any:
    """A 0-d tensor as a number."""
    return interpreter.emit("aten::item", [tensor])


def _cast(kind: type) -> Callable[..., Any]:
    name = {int: "aten::Int", float: "aten::Float", bool: "aten::Bool"}[kind]

    def python(interpreter: Interpreter, tensor: Any) -> Any:
        if not isinstance(tensor, Value) or isinstance(tensor.type, ScalarType):
            return NotImplemented
        number = interpreter.emit("aten::item", [tensor])
        own = number.type.kind if isinstance(number, Value) and isinstance(number.type, ScalarType) else type(number)
        return number if own is kind else numbers.compute(interpreter, name, [number])

    return python


PYTHON: dict[str, Callable[..., Any]] = {
    "aten::size": _size,
    "aten::dim": _dim,
    "aten::numel": _numel,
    "aten::len": _length,
    "aten::__getitem__": _item,
    "prim::dtype": _of_dtype(lambda dtype: dtype),
    "prim::device": lambda interpreter, tensor: torch.device("cpu"),
    "prim::layout": lambda interpreter, tensor: torch.strided,
    "prim::requires_grad": lambda interpreter, tensor: False,
    "aten::is_floating_point": _of_dtype(lambda dtype: dtype.is_floating_point),
    "aten::is_complex": _of_dtype(lambda dtype: dtype.is_complex),
    "aten::ScalarImplicit": _implicit,
    "aten::IntImplicit": _cast(int),
    "aten::FloatImplicit": _cast(float),
    "aten::Int": _cast(int),
    "aten::Float": _cast(float),
    "aten::Bool": _cast(bool),
}
"""By the operator's name, with or without its overload; NotImplemented leaves the call to torch's operator."""
