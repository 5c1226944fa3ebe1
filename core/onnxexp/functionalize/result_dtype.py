"""Type promotion of an in-place operator, before the cast to the written dtype."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.functionalize.mutation import facts
from onnxexp.graph import ScalarType, TensorType, Value
from onnxexp.torch_ops.schemas import overload

__all__ = ["result_dtype"]


def result_dtype(op: str, args: Sequence[Any], default: torch.dtype | None) -> torch.dtype | None:
    """Find the result dtype of a pointwise operator by a trial; else `default`.

    None where it is not known.
    """
    if not facts(op).pointwise or any(isinstance(arg, (list, tuple)) for arg in args):
        return default
    known = [arg.type.dtype for arg in args if isinstance(arg, Value) and isinstance(arg.type, TensorType)]
    trial = _trial if op.startswith("aten::") else _trial.__wrapped__  # a library may define another operator again
    return None if None in known else trial(op, tuple(map(_sample, args)), default)


def _sample(arg: Any) -> Any:
    """Reduce an argument to its part in type promotion.

    Numbers become pairs, since 1, 1.0 and True are one key.
    """
    if isinstance(arg, Value):
        type_ = arg.type
        if isinstance(type_, ScalarType):
            return type_.kind, 1
        return type_.dtype, len(type_.sizes) if type_.sizes is not None else 1
    return (type(arg), 1) if isinstance(arg, (bool, int, float, complex)) else arg


@functools.lru_cache(maxsize=4096)
def _trial(op: str, samples: tuple[Any, ...], default: torch.dtype | None) -> torch.dtype | None:
    function = overload(op)
    assert function is not None
    args = [_example(*sample) if isinstance(sample, tuple) else sample for sample in samples]
    named = {argument.name: arg for argument, arg in zip(function._schema.arguments, args, strict=True) if argument.kwarg_only}
    try:
        result = function(*args[: len(args) - len(named)], **named)
    except (RuntimeError, NotImplementedError, TypeError):  # the operator refuses the trial, say because of its shapes
        return default
    return result.dtype if isinstance(result, torch.Tensor) else default


def _example(kind: Any, rank: int) -> Any:
    return torch.empty((1,) * rank, dtype=kind, device="meta") if isinstance(kind, torch.dtype) else kind(1)
