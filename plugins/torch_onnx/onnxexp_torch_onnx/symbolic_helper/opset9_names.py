"""Names of ``symbolic_opset9`` and others that differ from torch's operators.

The names are helpers, or symbolics whose arguments differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

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
    _fail,
    _get_const,
    _is_none,
    _is_packed_list,
    _is_value,
    _maybe_get_const,
    _node_get,
    _parse_arg,
    _unpack_list,
)
from onnxexp_torch_onnx.symbolic_helper.resizing import _interpolate_helper
from onnxexp_torch_onnx.symbolic_helper.types import _get_tensor_rank, _get_tensor_sizes, _is_fp
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


def _is(g: Any, self: Any, other: Any) -> Any:
    """Emit whether a value is None, or whether two values are equal."""
    if _is_none(other):
        return _constant(g, [_is_none(self)], torch.bool)
    return torch_op(g, "eq", self, other)


def _contains(g: Any, self: Any, element: Any) -> Any:
    """Emit whether a list of constants has a constant.

    Raises SymbolicValueError if one of them is not known at export.
    """
    known = [each if _is_value(each) else g.scratch.value(each) for each in (element, *_unpack_list(self))]
    if any(each.node().kind() not in ("onnx::Constant", "prim::Constant") for each in known):
        _fail("__contains__ needs a list of constants and a constant", self)
    first, *others = (torch.as_tensor(_node_get(each.node(), "value")) for each in known)
    return _constant(g, any(torch.equal(first, other) for other in others), torch.bool)


def _trunc_divide(g: Any, self: Any, other: Any) -> Any:
    """Emit a division that rounds towards 0, in the dtype of `self`.

    It is float32 if only `other` is a float.
    """
    kind = JitScalarType.from_value(self, JitScalarType.FLOAT)
    kind = JitScalarType.FLOAT if _is_fp(other) and not _is_fp(self) else kind
    whole = g.op("Cast", g.op("Div", self, other), to_i=JitScalarType.INT64.onnx_type())
    return g.op("Cast", whole, to_i=kind.onnx_type())


def _integers_as_floats(g: Any, *args: Any) -> tuple[Any, ...]:
    """Cast integers to float32.

    Returns the name of their dtype, or None where nothing is cast, and then the arguments.
    """
    kind = JitScalarType.from_value(args[0], JitScalarType.UNDEFINED)
    if kind is JitScalarType.UNDEFINED or _is_fp(args[0]):
        return (None, *args)
    return kind.scalar_name(), *(g.op("Cast", arg, to_i=JitScalarType.FLOAT.onnx_type()) for arg in args)


def _cast_to_type(g: Any, input: Any, to_type: str | None) -> Any:
    """Cast to a dtype that `_try_cast_integer_to_float` has named.

    None leaves the value as it is.
    """
    return input if to_type is None else g.op("Cast", input, to_i=JitScalarType.from_name(to_type).onnx_type())


def _convert_element_type(g: Any, self: Any, *args: Any) -> Any:
    return g.op("Cast", self, to_i=JitScalarType(_get_const(args[0], "i", "dtype")).onnx_type())


def _pool_ceil_padding(input: Any, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> list[int]:
    """Compute what a pooling with `ceil_mode` adds to the end of each axis.

    It completes the last window that starts inside of the input or of its first padding. Raises SymbolicValueError if a size is
    not known.
    """
    sizes = (_get_tensor_sizes(input) or [None] * len(padding))[-len(padding) :]
    added = []
    for size, kernel, step, pad in zip(sizes, kernel_size, stride, padding, strict=True):
        if size is None:
            _fail("get_pool_ceil_padding needs the sizes of its input", input)
        windows = -(-(size + 2 * pad - kernel) // step) + 1
        windows -= (windows - 1) * step >= size + pad
        added.append(max(0, (windows - 1) * step + kernel - size - 2 * pad))
    return added


def _grid_sample_mode(mode_s: str) -> str:
    """Return the mode of ONNX's GridSample from opset 20 on."""
    return {"bilinear": "linear", "bicubic": "cubic"}.get(mode_s, mode_s)


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


def _wrap_negation(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a symbolic with two arguments so that its result is negated."""

    @functools.wraps(func)
    def wrapper(g: Any, input: Any, other: Any) -> Any:
        return g.op("Not", func(g, input, other))

    return wrapper


def _pooling(name: str, *_: Any, **__: Any) -> Callable[..., Any]:
    """Return the symbolic of a pooling.

    The other arguments of torch.onnx follow from the name.
    """
    return lambda g, *args: torch_op(g, name, *args)


def _cast(kind: JitScalarType) -> Callable[..., Any]:
    return lambda g, input, non_blocking=False: g.op("Cast", input, to_i=kind.onnx_type())


REMOVED_SYMBOLICS: dict[str, Callable[..., Any]] = {
    "__contains_": _contains,
    "__getitem_": _getitem,
    "__is_": _is,
    "__isnot_": _wrap_negation(_is),
    "_adaptive_pool": _pooling,
    "_avg_pool": _pooling,
    "_cast_to_type": _cast_to_type,
    "_convert_padding_node": _convert_padding_node,
    "_interpolate": _interpolate_helper,
    "_len": _len,
    "_list": lambda g, self: self,
    "_max_pool": _pooling,
    "_maybe_cast_reduce_op_input": _maybe_cast_reduce_op_input,
    "_prepare_onnx_paddings": _prepare_onnx_paddings,
    "_reduce_op_symbolic": _reduce_op_symbolic_helper,
    "_reduce_with_dtype": _reduce_with_dtype_helper,
    "_shape_as_tensor": _size,
    "_slice": _slice_helper,
    "_trunc_divide": _trunc_divide,
    "_try_cast_integer_to_float": _integers_as_floats,
    "aten__is_": _is,
    "aten__isnot_": _wrap_negation(_is),
    "convert_element_type": _convert_element_type,
    "convert_grid_sample_mode": _grid_sample_mode,
    "dim": _dim,
    "get_pool_ceil_padding": _pool_ceil_padding,
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
