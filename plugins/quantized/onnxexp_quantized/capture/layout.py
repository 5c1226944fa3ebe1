"""Functions that move integers and keep their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

__all__ = ["on_integers", "table"]

table = FunctionTable()


def first_of(args: Any) -> QuantizedTensor:
    """The first quantized tensor among the arguments."""
    found: QuantizedTensor = next(each for each in pytree.tree_leaves(args) if isinstance(each, QuantizedTensor))
    return found


def on_integers(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with the integers; results of their dtype are quantized."""
    source = first_of((args, kwargs))
    given, named = pytree.tree_map_only(QuantizedTensor, lambda each: each.integers, (tuple(args), dict(kwargs)))
    results = func(*given, **named)
    own = source.integers.dtype

    def wrapped(result: torch.Tensor) -> Any:
        return source.with_integers(result) if result.dtype == own else result

    return pytree.tree_map_only(torch.Tensor, wrapped, results)


table.generic(
    """
    alias chunk clone contiguous detach expand expand_as flatten flip index_select masked_select movedim narrow permute
    pixel_shuffle pixel_unshuffle channel_shuffle repeat reshape select slice split squeeze stack swapaxes t tile transpose
    unbind unflatten unsqueeze view view_as native_channel_shuffle
    """,
    on_integers,
)
