"""Names of ``symbolic_opset9`` and others that differ from torch's operators.

The names are helpers, or symbolics whose arguments differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnxexp_torch_onnx.scalar_type import JitScalarType
from onnxexp_torch_onnx.symbolic_helper.building import (
    _constant,
    _maybe_cast_reduce_op_input,
    _numel_helper,
    _overload_by_arg_count,
    _reduce_op_symbolic_helper,
    _reduce_with_dtype_helper,
    _size_helper,
    _slice_helper,
)
from onnxexp_torch_onnx.symbolic_helper.reading import (
    _get_const,
    _is_none,
    _is_packed_list,
    _maybe_get_const,
    _parse_arg,
    _unpack_list,
)
from onnxexp_torch_onnx.symbolic_helper.resizing import _interpolate_helper
from onnxexp_torch_onnx.symbolic_helper.types import _get_tensor_rank
from onnxexp_torch_onnx.torch_op import torch_op

__all__ = ["REMOVED_SYMBOLICS"]


def _unused(g: Any) -> Any:
    """Return a value for an omitted argument."""
    return g.scratch.value(None)


def _size(g: Any, self: Any, dim: Any = None) -> Any:
    return g.op("Shape", self) if dim is None or _is_none(dim) else _size_helper(g, self, dim)


def _getitem(g: Any, self: Any, i: Any) -> Any:
    """Return an element of a list or of a sequence."""
    if _is_packed_list(self):
        return _unpack_list(self)[_get_const(i, "i", "i")]
    return g.op("SequenceAt", self, i)


def _dim(g: Any, self: Any) -> Any:
    rank = _get_tensor_rank(self)
    return g.op("Size", g.op("Shape", self)) if rank is None else _constant(g, rank)


def _len(g: Any, self: Any) -> Any:
    return _constant(g, len(_unpack_list(self))) if _is_packed_list(self) else _size_helper(g, self, 0)


def _to(g: Any, self: Any, *args: Any) -> Any:
    """Cast to a dtype's number, which flags may follow, or to the dtype of a tensor."""
    return torch_op(g, "to", self, *(_maybe_get_const(arg, "i") for arg in args))


def _pad(mode: str) -> Callable[..., Any]:
    return lambda g, input, padding: torch_op(g, "pad", input, padding, mode)


def _tanhshrink(g: Any, self: Any) -> Any:
    return g.op("Sub", self, g.op("Tanh", self))


def _convert_padding_node(padding: Any) -> Any:
    """Convert a padding to a list of numbers.

    Raises SymbolicValueError if a number is not known at export.
    """
    if _is_packed_list(padding):
        return [_parse_arg(each, "i", "padding") for each in _unpack_list(padding)]
    return _parse_arg(padding, "is", "padding", "pad")


def _prepare_onnx_paddings(g: Any, input: Any, pad: Any) -> Any:
    """Emit torch's paddings in ONNX's order: all starts, then all ends.

    torch lists the paddings of the last axes only, the innermost first.
    """
    rank, numbers = _get_tensor_rank(input) or 0, _convert_padding_node(pad)
    numbers = [*numbers, *[0] * (2 * rank - len(numbers))]
    return _constant(g, [*numbers[-2::-2], *numbers[::-2]])


def _wrap_cast(to_type: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that casts both arguments of a symbolic first."""
    kind = JitScalarType.from_name(to_type).onnx_type()

    def decorator(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(g: Any, input: Any, other: Any) -> Any:
            return fn(g, *(g.op("Cast", each, to_i=kind) for each in (input, other)))

        return wrapper

    return decorator


def _wrap_negation(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a symbolic with two arguments so that its result is negated."""

    @functools.wraps(fn)
    def wrapper(g: Any, input: Any, other: Any) -> Any:
        return g.op("Not", fn(g, input, other))

    return wrapper


def _pooling(name: str, *_: Any, **__: Any) -> Callable[..., Any]:
    """Return the symbolic of a pooling.

    The other arguments of torch.onnx follow from the name.
    """
    return lambda g, *args: torch_op(g, name, *args)


def _cast(kind: JitScalarType) -> Callable[..., Any]:
    return lambda g, input, non_blocking=False: g.op("Cast", input, to_i=kind.onnx_type())


REMOVED_SYMBOLICS: dict[str, Callable[..., Any]] = {
    "__getitem_": _getitem,
    "_adaptive_pool": _pooling,
    "_avg_pool": _pooling,
    "_convert_padding_node": _convert_padding_node,
    "_interpolate": _interpolate_helper,
    "_len": _len,
    "_max_pool": _pooling,
    "_maybe_cast_reduce_op_input": _maybe_cast_reduce_op_input,
    "_prepare_onnx_paddings": _prepare_onnx_paddings,
    "_reduce_op_symbolic": _reduce_op_symbolic_helper,
    "_reduce_with_dtype": _reduce_with_dtype_helper,
    "_shape_as_tensor": _size,
    "_slice": _slice_helper,
    "dim": _dim,
    "numel": _numel_helper,
    "overload_by_arg_count": _overload_by_arg_count,
    "reflection_pad": _pad("reflect"),
    "replication_pad": _pad("replicate"),
    "size": _size,
    "tanhshrink": _tanhshrink,
    "to": _to,
    "unused": _unused,
    "wrap_logical_op_with_cast_to": _wrap_cast,
    "wrap_logical_op_with_negation": _wrap_negation,
}
"""The functions by name."""
REMOVED_SYMBOLICS |= {
    f"_cast_{each.scalar_name()}": _cast(each) for each in JitScalarType if each.onnx_compatible() and each <= 11
}
