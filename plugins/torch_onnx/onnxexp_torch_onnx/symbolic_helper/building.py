"""Small pieces of graph that symbolics share.

No piece depends on the opset: the builder separates attributes from inputs by the operator's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp_torch_onnx.enums import TensorProtoDataType
from onnxexp_torch_onnx.scalar_type import JitScalarType
from onnxexp_torch_onnx.symbolic_helper.reading import (
    _get_const,
    _is_constant,
    _is_none,
    _is_packed_list,
    _is_value,
    _maybe_get_const,
    _maybe_get_scalar,
    _unimplemented,
    _unpack_list,
)
from onnxexp_torch_onnx.symbolic_helper.types import _get_tensor_rank, _is_fp, _maybe_cast_to_type, _try_get_scalar_type
from onnxexp_torch_onnx.torch_op import torch_op

__all__ = [
    "_arange_cast_helper",
    "_arange_helper",
    "_argmin_argmax_helper",
    "_avgpool_helper",
    "_batchnorm_helper",
    "_cast_helper",
    "_embedding_bag_helper",
    "_flatten_helper",
    "_generate_wrapped_number",
    "_handle_reduce_dim_none",
    "_index_fill_reshape_helper",
    "_is_split_static",
    "_linalg_vector_norm_helper",
    "_lt_helper",
    "_max_helper",
    "_min_helper",
    "_numel_helper",
    "_op_with_optional_float_cast",
    "_optional_input_placeholder_tensor",
    "_overload_by_arg_count",
    "_apply_params",
    "_maybe_cast_reduce_op_input",
    "_reduce_op_symbolic_helper",
    "_reduce_with_dtype_helper",
    "_reducesum_helper",
    "_repeat_interleave_split_helper",
    "_reshape_helper",
    "_scatter_helper",
    "_select_helper",
    "_size_helper",
    "_slice_helper",
    "_sort_helper",
    "_squeeze_helper",
    "_topk_helper",
    "_unbind_helper",
    "_unsqueeze_helper",
    "_var_mean_helper",
]


def _constant(g: Any, value: Any, dtype: torch.dtype = torch.int64) -> Any:
    return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))


def _axes(g: Any, axes: Any) -> Any:
    """Convert axes to one value.

    The axes are numbers, a value, or a list with one value, an older form of torch.onnx.
    """
    if _is_value(axes):
        return axes
    if len(axes) == 1 and not _is_constant(axes[0]):
        value = axes[0]
        return g.op("Reshape", value, _constant(g, [1])) if _get_tensor_rank(value) == 0 else value
    return _constant(g, [int(_maybe_get_const(axis, "i")) for axis in axes])


def _unsqueeze_helper(g: Any, input: Any, axes_i: Any) -> Any:
    """Emit Unsqueeze for axes that are numbers or one value."""
    if not _is_value(axes_i) and len(axes_i) == 0:
        return input
    return g.op("Unsqueeze", input, _axes(g, axes_i))


def _squeeze_helper(g: Any, input: Any, axes_i: Any) -> Any:
    """Emit Squeeze for axes that are numbers or one value."""
    return g.op("Squeeze", input, _axes(g, axes_i))


def _reducesum_helper(g: Any, input: Any, axes_i: Any = None, keepdims_i: Any = 1, noop_with_empty_axes_i: int = 0) -> Any:
    """Emit ReduceSum for axes that are numbers, a value, or None for all axes."""
    keep = _maybe_get_const(keepdims_i, "i")
    axes = [] if _is_none(axes_i) else [_axes(g, axes_i)] if _is_value(axes_i) or len(axes_i) else []
    noop = noop_with_empty_axes_i or None
    return g.op("ReduceSum", input, *axes, keepdims_i=keep, noop_with_empty_axes_i=noop)


def _reshape_helper(g: Any, input: Any, shape: Any, allowzero: int = 0) -> Any:
    """Emit Reshape for a shape that is a value, or a list of numbers and values."""
    if not _is_value(shape):
        shape = g.op("prim::ListConstruct", *(each if _is_value(each) else _constant(g, each) for each in shape))
    return g.op("Reshape", input, shape, allowzero_i=allowzero or None)


def _cast_helper(g: Any, input: Any, dtype: Any) -> Any:
    return g.op("Cast", input, to_i=dtype)


def _slice_helper(g: Any, input: Any, axes: Any, starts: Any, ends: Any, steps: Any = None, dynamic_slice: bool = False) -> Any:
    """Emit Slice for arguments that are values or lists of numbers."""
    given = [starts, ends, axes, *([] if steps is None else [steps])]
    return g.op("Slice", input, *(each if _is_value(each) else _constant(g, list(each)) for each in given))


def _select_helper(g: Any, self: Any, dim: Any, index: Any, apply_reshape: bool = True) -> Any:
    """Emit Gather along an axis for an index of one element."""
    known = _maybe_get_scalar(index)
    if not _is_value(known):
        index = _constant(g, [int(known)])
    elif apply_reshape and _get_tensor_rank(index) == 0:
        index = _reshape_helper(g, index, _constant(g, [1]))
    if _try_get_scalar_type(index) not in (JitScalarType.INT64, JitScalarType.INT):
        index = g.op("Cast", index, to_i=TensorProtoDataType.INT64)
    return g.op("Gather", self, index, axis_i=dim)


def _size_helper(g: Any, self: Any, dim: Any) -> Any:
    """Emit one size as a 0-d tensor."""
    return g.op("Gather", g.op("Shape", self), dim if _is_value(dim) else _constant(g, dim), axis_i=0)


def _numel_helper(g: Any, self: Any) -> Any:
    return g.op("ReduceProd", g.op("Shape", self), keepdims_i=0)


def _topk_helper(
    g: Any, input: Any, k: Any, dim: int, largest: Any = True, sorted: Any = False, out: Any = None
) -> tuple[Any, Any]:
    """Emit TopK for a k that is a number or a value."""
    if not _is_none(out):
        _unimplemented("TopK", "Out parameter is not supported")
    if not _is_value(k):
        k = _constant(g, [k])
    else:
        k = _maybe_cast_to_type(g, _reshape_helper(g, k, _constant(g, [1])), JitScalarType.INT64)
    extra = {} if largest and sorted else {"largest_i": int(largest), "sorted_i": int(sorted)}
    values, indices = g.op("TopK", input, k, axis_i=dim, outputs=2, **(extra if g.opset >= 11 or not largest else {}))
    return values, indices


def _sort_helper(g: Any, input: Any, dim: Any, descending: Any = True, out: Any = None, decending: Any = None) -> tuple[Any, Any]:
    """Emit the sorted values and their indices."""
    order = descending if decending is None else decending
    size = g.op("Gather", g.op("Shape", input), _constant(g, [dim]))
    return _topk_helper(g, input, size, dim, largest=order, sorted=True, out=out)


def _generate_wrapped_number(g: Any, scalar: Any) -> Any:
    """Emit a Python number as torch wraps it: a float as double, an int as int64."""
    return _constant(g, scalar, torch.float64 if isinstance(scalar, float) else torch.tensor(scalar).dtype)


def _optional_input_placeholder_tensor(g: Any) -> Any:
    """Emit a value for an omitted input."""
    made = g.op("prim::Constant")
    made.setType(torch._C.OptionalType.ofTensor())
    return made


def _flatten_helper(g: Any, input: Any, start_dim: int, end_dim: int, dim: int) -> Any:
    """Flatten the axes from start_dim to end_dim, where `dim` is the rank."""
    shape = g.op("Shape", input)
    pieces = [_slice_helper(g, shape, [0], [0], [start_dim])] if start_dim > 0 else []
    pieces.append(_constant(g, [-1]))
    if end_dim < dim - 1:
        pieces.append(_slice_helper(g, shape, [0], [end_dim + 1], [dim]))
    return _reshape_helper(g, input, pieces[0] if len(pieces) == 1 else g.op("Concat", *pieces, axis_i=0))


def _is_split_static(split_size_or_sizes: Any, _outputs: int | None) -> bool:
    """Return whether the number of pieces and their sizes are known."""
    if _outputs is None:
        return False
    if _is_value(split_size_or_sizes) and not _is_constant(split_size_or_sizes):
        return _is_packed_list(split_size_or_sizes) and all(map(_is_constant, _unpack_list(split_size_or_sizes)))
    return True


def _op_with_optional_float_cast(g: Any, op_name: str, *args: Any, **kwargs: Any) -> Any:
    """Emit an operator that takes only floats below opset `opset_before`.

    Below that opset, integers are cast to a float type and back.
    """
    limit, target = kwargs.pop("opset_before", None), kwargs.pop("target_float_t", JitScalarType.FLOAT)
    before = _try_get_scalar_type(*args)
    if (limit is None or g.opset < limit) and before is not None and not _is_fp(args[0]):
        cast = [arg if _is_none(arg) else _maybe_cast_to_type(g, arg, target) for arg in args]
        return g.op("Cast", g.op(op_name, *cast, **kwargs), to_i=before.onnx_type())
    return g.op(op_name, *args, **kwargs)


def _handle_reduce_dim_none(g: Any, self: Any, op_name: str) -> Any:
    return g.op(op_name, self, keepdims_i=0)


def _apply_params(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that calls a function with these arguments.

    The result of the call replaces the function.
    """
    return lambda fn: fn(*args, **kwargs)


def _overload_by_arg_count(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that returns overloads.

    The number of arguments selects the overload.
    """

    def wrapper(g: Any, *args: Any) -> Any:
        for overload in fn(g, *args):
            descriptors = vars(overload).get("_arg_descriptors", ())
            if len(descriptors) == len(args):
                return overload(g, *args)
        return _unimplemented(f"aten::{fn.__name__}", f"with {len(args)} arguments")

    return wrapper


# Whole operators, lowered by the plugins of the running export


def _of_torch(name: str) -> Callable[..., Any]:
    def helper(g: Any, *args: Any) -> Any:
        return torch_op(g, name, *args)

    helper.__name__ = f"_{name}_helper"
    return helper


_lt_helper = _of_torch("lt")
_scatter_helper = _of_torch("scatter")
_linalg_vector_norm_helper = _of_torch("linalg_vector_norm")
_embedding_bag_helper = _of_torch("embedding_bag")
_max_helper = _of_torch("max")
_min_helper = _of_torch("min")
_arange_helper = _of_torch("arange")
_var_mean_helper = _of_torch("var_mean")


def _unbind_helper(g: Any, self: Any, dim: Any, _outputs: int | None = None) -> Any:
    """Emit `_outputs` slices along an axis, or a sequence if `_outputs` is None."""
    axis = _get_const(dim, "i", "dim")
    if _outputs is None:
        return g.op("SplitToSequence", self, _constant(g, 1), axis_i=axis, keepdims_i=0)
    pieces = g.op("Split", self, _constant(g, [1] * _outputs), axis_i=axis, outputs=_outputs)
    pieces = [pieces] if _outputs == 1 else pieces
    return [_squeeze_helper(g, piece, [axis]) for piece in pieces]


def _argmin_argmax_helper(g: Any, input: Any, dim: Any, keepdim: Any, op_name: str) -> Any:
    """Emit ArgMin or ArgMax, of the flattened tensor if the axis is None."""
    if _is_none(dim):
        flat = _reshape_helper(g, input, _constant(g, [-1]))
        return g.op(op_name, flat, axis_i=0, keepdims_i=0)
    return g.op(op_name, input, axis_i=_parse_int(dim, "dim"), keepdims_i=_parse_int(keepdim, "keepdim"))


def _parse_int(value: Any, name: str) -> int:
    return int(_get_const(value, "i", name))


def _index_fill_reshape_helper(g: Any, self: Any, dim: int, index: Any) -> tuple[Any, Any]:
    """Expand the index of index_fill, and return its shape and the index."""
    rank = _get_tensor_rank(self)
    if rank is None:
        _unimplemented("index_fill", "input rank not accessible")
    axes = [axis for axis in range(rank or 0) if axis != dim % (rank or 1)]
    spread = _unsqueeze_helper(g, index, axes)
    shape = g.op("Shape", self)
    return g.op("Shape", g.op("Expand", spread, shape)), g.op("Expand", spread, shape)


def _arange_cast_helper(g: Any, end: Any, start: Any = None, step: Any = None, dtype: Any = None) -> tuple[Any, ...]:
    """Cast the arguments of an arange to one scalar type.

    Returns (scalar type, end, start, step). The scalar type is `dtype`, else the first floating type, else int64.
    """
    values = [each for each in (start, end, step) if each is not None]
    if dtype is not None and not _is_none(dtype):
        kind = JitScalarType(_maybe_get_const(dtype, "i"))
    else:
        floating = next((_try_get_scalar_type(each) for each in values if _is_fp(each)), None)
        kind = floating or JitScalarType.INT64

    def cast(each: Any) -> Any:
        return None if each is None else g.op("Cast", each, to_i=kind.onnx_type())

    return kind, cast(end), cast(start), cast(step)


def _batchnorm_helper(
    g: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any
) -> tuple[Any, Any, Any, Any]:
    """Emit the four parameters of a batch normalization, ones or zeros for None."""
    like = next(each for each in (running_mean, running_var, weight, bias, input) if not _is_none(each))
    size = _size_helper(g, input, 1)
    shape = _reshape_helper(g, size, _constant(g, [1]))
    kind = (_try_get_scalar_type(like) or JitScalarType.FLOAT).dtype()

    def filled(value: float) -> Any:
        return g.op("ConstantOfShape", shape, value_t=torch.tensor([value], dtype=kind))

    defaults: Sequence[float] = (1.0, 0.0, 0.0, 1.0)
    given = (weight, bias, running_mean, running_var)
    made = [filled(default) if _is_none(each) else each for each, default in zip(given, defaults, strict=True)]
    return made[0], made[1], made[2], made[3]


def _avgpool_helper(
    tuple_fn: Callable[[Any], Sequence[int]], padding: Any, kernel_size: Any, stride: Any, divisor_override: Any, name: str
) -> tuple[int, ...]:
    """Return the padding as a tuple.

    Raises LoweringError for average pooling with a divisor_override.
    """
    if divisor_override and hasattr(divisor_override, "node"):
        _unimplemented(name, "divisor_override")
    return tuple(tuple_fn(padding))


def _repeat_interleave_split_helper(g: Any, self: Any, reps: int, dim: int) -> list[Any]:
    """Split the tensor into `reps` equal pieces along an axis."""
    pieces = g.op("Split", self, axis_i=dim, outputs=reps)
    return [pieces] if reps == 1 else list(pieces)


def _maybe_cast_reduce_op_input(g: Any, self: Any) -> Any:
    """Cast small integers and bools to int64, as torch does for sums and products."""
    kind = _try_get_scalar_type(self)
    if kind is None or _is_fp(self) or kind is JitScalarType.INT64:
        return self
    return g.op("Cast", self, to_i=TensorProtoDataType.INT64)


def _reduce_op_symbolic_helper(onnx_op_name: str, allow_multi_dim_support: bool = True) -> Callable[..., Any]:
    """Build a symbolic of a reduction: ``(g, self, dim=None, keepdim=None)``."""

    def symbolic(g: Any, self: Any, dim: Any = None, keepdim: Any = None) -> Any:
        self = _maybe_cast_reduce_op_input(g, self)
        if _is_none(dim):
            return _handle_reduce_dim_none(g, self, onnx_op_name)
        keep = _parse_int(keepdim, "keepdim")
        axes = _get_const(dim, "is" if allow_multi_dim_support else "i", "dim")
        return g.op(onnx_op_name, self, axes_i=axes if isinstance(axes, list) else [axes], keepdims_i=keep)

    return symbolic


def _reduce_with_dtype_helper(onnx_op: str, name: str, allow_multi_dim_support: bool = True) -> Callable[..., Any]:
    """Build a symbolic of a reduction with a dtype.

    The parameters of the symbolic are ``(g, self, dtype)`` or ``(g, self, dim, keepdim, dtype)``.
    """
    reduce = _reduce_op_symbolic_helper(onnx_op, allow_multi_dim_support)

    def symbolic(g: Any, self: Any, *rest: Any) -> Any:
        *where, dtype = rest
        if not _is_none(dtype):
            self = g.op("Cast", self, to_i=JitScalarType(_parse_int(dtype, "dtype")).onnx_type())
        return reduce(g, self, *where)

    symbolic.__name__ = name
    return symbolic
