"""Constants, lists and kinds of values among a symbolic's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from onnxexp import LoweringError, warn
from onnxexp_torch_onnx.emit_nodes import attributes
from onnxexp_torch_onnx.errors import SymbolicValueError
from onnxexp_torch_onnx.settings import current

__all__ = [
    "_get_const",
    "_if_scalar_type_as",
    "_is_constant",
    "_is_list",
    "_is_none",
    "_is_onnx_constant",
    "_is_packed_list",
    "_is_scalar_list",
    "_is_tensor",
    "_is_tensor_list",
    "_is_tuple_construct",
    "_is_value",
    "_maybe_get_const",
    "_maybe_get_scalar",
    "_node_get",
    "_onnx_opset_unsupported",
    "_onnx_opset_unsupported_detailed",
    "_onnx_unsupported",
    "_parse_arg",
    "_scalar",
    "_unimplemented",
    "_unpack_list",
    "_unpack_quantized_tensor",
    "_unpack_tuple",
    "_block_list_in_opset",
    "assert_training_mode",
    "check_training_mode",
    "parse_args",
]

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "i": int,
    "f": float,
    "b": bool,
    "s": str,
    "t": lambda value: value,
    "is": lambda value: [int(each) for each in value],
    "fs": lambda value: [float(each) for each in value],
}


def _is_value(x: Any) -> bool:
    """Return whether this is a value of a graph."""
    return isinstance(x, torch._C.Value)


def _is_none(x: Any) -> bool:
    """Return whether this is None, or a None value."""
    return x is None or bool(_is_value(x) and x.node().mustBeNone())


def _is_onnx_constant(value: Any) -> bool:
    return bool(value.node().kind() == "onnx::Constant")


def _is_constant(value: Any) -> bool:
    """Return whether this is known at export."""
    return not _is_value(value) or value.node().kind() in ("onnx::Constant", "prim::Constant")


def _is_tensor(x: Any) -> bool:
    return bool(x.type().isSubtypeOf(torch._C.TensorType.get()))


def _is_list(x: Any) -> bool:
    return isinstance(x.type(), torch._C.ListType)


def _is_tensor_list(x: Any) -> bool:
    return _is_list(x) and isinstance(x.type().getElementType(), torch._C.TensorType)


def _is_scalar_list(x: Any) -> bool:
    """Return whether this is a list of numbers."""
    return _is_list(x) and str(x.type().getElementType()) in ("int", "float", "bool")


def _is_packed_list(list_value: Any) -> bool:
    """Return whether `_unpack_list` can unpack this value."""
    return bool(_is_value(list_value) and list_value.node().kind() == "prim::ListConstruct")


def _is_tuple_construct(x: Any) -> bool:
    return bool(x.node().kind() == "prim::TupleConstruct")


def _node_get(node: Any, key: str) -> Any:
    """Read an attribute of any kind from a node."""
    return attributes(node)[key][1]


def _unpack_list(list_value: Any) -> list[Any]:
    """Return the elements of a list.

    Raises SymbolicValueError if the elements are not known.
    """
    if not _is_packed_list(list_value):
        raise SymbolicValueError("a list whose elements are known was expected", list_value)
    return list(list_value.node().inputs())


def _unpack_tuple(tuple_value: Any) -> tuple[Any, ...]:
    """Return the elements of a tuple.

    Raises SymbolicValueError if the elements are not known.
    """
    if not _is_tuple_construct(tuple_value):
        raise SymbolicValueError("a tuple whose elements are known was expected", tuple_value)
    return tuple(tuple_value.node().inputs())


def _unpack_quantized_tensor(tuple_value: Any) -> tuple[Any, ...]:
    """Unpack a quantized tensor to (tensor, scale, zero point) and maybe the axis.

    Raises SymbolicValueError if the value is not a quantized tensor.
    """
    unpacked = _unpack_tuple(tuple_value)
    if len(unpacked) not in (3, 4):
        raise SymbolicValueError("a quantized tensor is a tuple of tensor, scale, zero point and maybe an axis", tuple_value)
    return unpacked


def _parse_arg(value: Any, desc: str, arg_name: str | None = None, node_name: str | None = None) -> Any:
    """Convert a constant value to a Python object: i, f, b, s, t, is or fs.

    The descriptors "v" and "none" leave the value as it is.

    Raises SymbolicValueError if the value is not known at export.
    """
    if desc in ("none", "v") or not _is_value(value):
        return value
    node = value.node()
    if node.mustBeNone():
        return None
    if desc not in _CONVERSIONS:
        raise SymbolicValueError(f"{desc!r} is not a descriptor: use v, i, is, f, fs, b, s, t or none", value)
    what = f"the argument {arg_name} of {node_name}" if arg_name and node_name else "this argument"
    if node.kind() == "onnx::Constant":
        return _converted(_node_get(node, "value"), desc, what, value)
    if node.kind() == "prim::ListConstruct" and desc in ("is", "fs"):
        elements = list(node.inputs())
        if all(each.node().kind() == "onnx::Constant" for each in elements):
            return _converted([_node_get(each.node(), "value") for each in elements], desc, what, value)
    raise SymbolicValueError(f"{what} must be known at export ({desc}), but {node.kind()} computes it", value)


def _converted(contents: Any, desc: str, what: str, value: Any) -> Any:
    try:
        return _CONVERSIONS[desc](contents)
    except (TypeError, ValueError, RuntimeError):
        raise SymbolicValueError(f"{what} is {contents!r}, which cannot be converted to {desc!r}", value) from None


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    """Convert a constant as `_parse_arg` does, and return any other value as it is."""
    return _parse_arg(value, descriptor) if _is_value(value) and _is_onnx_constant(value) else value


def _maybe_get_scalar(value: Any) -> Any:
    """Return the 0-d tensor of a constant, or the value itself."""
    contents = _maybe_get_const(value, "t")
    return contents if isinstance(contents, torch.Tensor) and contents.shape == () else value


def _get_const(value: Any, desc: str, arg_name: str) -> Any:
    """Convert a constant as `_parse_arg` does.

    Raises SymbolicValueError if the value is not a constant.
    """
    if not _is_constant(value):
        raise SymbolicValueError(f"the argument {arg_name} must be known at export", value)
    return _parse_arg(value, desc)


def _scalar(x: Any) -> Any:
    """Return the number in a tensor or a constant of one element, or a number itself.

    Returns None for anything else.

    Raises SymbolicValueError for a value that is not known at export.
    """
    if isinstance(x, (bool, int, float)):
        return x
    contents = _get_const(x, "t", "of _scalar") if _is_value(x) else x
    return contents.item() if isinstance(contents, torch.Tensor) and contents.numel() == 1 else None


def _if_scalar_type_as(self: Any, tensor: Any, *rest: Any) -> Any:
    """Convert a constant tensor or number to the dtype of a value, if that is known.

    torch 1.0 to 1.12 pass `g` first.
    """
    if rest:
        self, tensor = tensor, *rest
    dtype = tensor.type().dtype() if _is_value(tensor) and _is_tensor(tensor) else getattr(tensor, "dtype", None)
    if dtype is None or not isinstance(self, (torch.Tensor, bool, int, float)):
        return self
    return torch.as_tensor(self).to(dtype)


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic so that constant arguments are passed as Python objects.

    Each argument after `g` has one descriptor: "v" (the value as it is), "i", "is", "f", "fs", "b", "s", "t" (a tensor), or
    "none" (unused).
    """

    def decorator(fn: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(fn).parameters)[1:]

        @functools.wraps(fn)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(arg_descriptors) < len(args):
                raise TypeError(f"{fn.__name__} got {len(args)} arguments, and parse_args names {len(arg_descriptors)} of them")
            padded = [*names, *[None] * len(args)]
            parsed = [
                _parse_arg(arg, descriptor, name, fn.__name__)
                for arg, descriptor, name in zip(args, arg_descriptors, padded, strict=False)
            ]
            return fn(g, *parsed, **kwargs)

        vars(wrapper)["_arg_descriptors"] = arg_descriptors
        return wrapper

    return decorator


def _unimplemented(op: str, msg: str, value: Any = None) -> None:
    """Raise an error for an operator, unless operators may stay torch's."""
    if current().operator_export_type == "ONNX":
        _onnx_unsupported(f"{op}, {msg}", value)


def _onnx_unsupported(op_name: str, value: Any = None) -> NoReturn:
    _fail(f"ONNX has no equivalent of {op_name}", value)


def _onnx_opset_unsupported(op_name: str, current_opset: int, supported_opset: int, value: Any = None) -> NoReturn:
    _fail(f"{op_name} cannot be expressed at opset {current_opset}; opset {supported_opset} can", value)


def _onnx_opset_unsupported_detailed(
    op_name: str, current_opset: int, supported_opset: int, reason: str, value: Any = None
) -> NoReturn:
    _fail(f"{op_name} cannot be expressed at opset {current_opset}: {reason}; opset {supported_opset} can", value)


def _fail(message: str, value: Any) -> NoReturn:
    if _is_value(value):
        raise SymbolicValueError(message, value)
    raise LoweringError(message)


def _block_list_in_opset(name: str) -> Callable[..., NoReturn]:
    """Return a symbolic that raises an error.

    The error's message states that the opset cannot express the operator.
    """

    def symbolic(*args: Any, **kwargs: Any) -> NoReturn:
        _fail(f"{name} cannot be expressed at opset {current().opset}; try another", None)

    return symbolic


def check_training_mode(op_train_mode: int | bool | Sequence[Any], op_name: str) -> None:
    """Warn if an operator's mode differs from the mode of the export."""
    if bool(op_train_mode) != current().training:
        mode, wanted = ("training" if bool(each) else "inference" for each in (op_train_mode, current().training))
        warn(f"{op_name} is in {mode} mode, and the export is for {wanted}")


assert_training_mode = check_training_mode
