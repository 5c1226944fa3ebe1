"""Functions that keep parameters: they move integers or round them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable, name_of
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

table = FunctionTable()


def first_of(args: Any) -> QuantizedTensor:
    """Return the first quantized tensor among the arguments."""
    found: QuantizedTensor = next(each for each in pytree.tree_leaves(args) if isinstance(each, QuantizedTensor))
    return found


def on_integers(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with the integers; results of their dtype are quantized.

    Raises CaptureError for tensors of different parameters.
    """
    source = first_of((args, kwargs))
    if any(not _same_parameters(source, each) for each in pytree.tree_leaves((args, kwargs))):
        raise CaptureError(
            f"{name_of(func)} is called with quantized tensors of different scales, which torch does not take; "
            "to fix this, dequantize before that line, and quantize after it"
        )
    return _moved(source, func, args, kwargs)


def shaped_like(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Move the integers of the first argument into the shape of the second."""
    return _moved(first_of((args, kwargs)), func, args, kwargs)


def rounded_again(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute in float32, and quantize the result with the parameters of the argument."""
    given, named = pytree.tree_map_only(QuantizedTensor, QuantizedTensor.dequantize, (tuple(args), dict(kwargs)))
    return first_of((args, kwargs)).like(func(*given, **named))


def _moved(source: QuantizedTensor, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with the integers; quantized results are like `source`."""
    given, named = pytree.tree_map_only(QuantizedTensor, lambda each: each.integers, (tuple(args), dict(kwargs)))
    results = func(*given, **named)
    own = source.integers.dtype
    return pytree.tree_map_only(
        torch.Tensor, lambda result: source.with_integers(result) if result.dtype == own else result, results
    )


def _same_parameters(source: QuantizedTensor, other: Any) -> bool:
    if other is source or not isinstance(other, QuantizedTensor):
        return True
    return other.scale is source.scale or (other.numbers() == source.numbers() and other.dtype == source.dtype)


table.generic(
    """
    _reshape_alias alias as_strided atleast_1d atleast_2d atleast_3d broadcast_to channel_shuffle chunk clone contiguous
    detach diagonal expand flatten flip index index_select movedim moveaxis narrow native_channel_shuffle permute pixel_shuffle
    pixel_unshuffle ravel repeat repeat_interleave reshape rot90 select slice split split_with_sizes squeeze swapaxes
    swapdims t tensor_split tile transpose unbind unflatten unfold unsqueeze view
    """,
    on_integers,
)
table.generic("expand_as reshape_as view_as", shaped_like)
table("T", "numpy_T")(lambda x: x.with_integers(x.integers.permute(*reversed(range(x.ndim)))))
table("mT")(lambda x: x.with_integers(x.integers.transpose(-2, -1)))
table("cpu")(lambda x: x)


@table("to")
def _to(self: QuantizedTensor, *args: Any, **kwargs: Any) -> QuantizedTensor:
    """to(Tensor self, ...) -> Tensor; torch converts no quantized tensor to another dtype."""
    return self
