"""Type promotion by torch's rules."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnxexp import Builder, Tensor

__all__ = ["dtype_of", "promote", "promoted_dtype", "to_float"]

_KINDS = (bool, int, float, complex)


def promoted_dtype(*args: Any, floating: bool = False) -> torch.dtype:
    """The dtype in which torch computes with these Tensors and Python numbers; `floating`: ints become float32."""
    keys = tuple([_key(arg) for arg in args if arg is not None])
    return _promoted(keys, floating, torch.get_default_dtype())


def _key(arg: Any) -> tuple[Any, bool]:
    """(dtype, is 0-d) of a tensor, (Python type, True) of a number, dynamic ones too."""
    if isinstance(arg, Tensor):
        return (arg.scalar, True) if arg.scalar else (arg.dtype, arg.rank == 0)
    return type(arg), True


@functools.lru_cache(maxsize=None)
def _promoted(keys: tuple[tuple[Any, bool], ...], floating: bool, default: torch.dtype) -> torch.dtype:
    """Of the highest of the kinds bool, int, float, complex; 0-d tensors have a say where no others are of that kind."""
    kinds = [_kind(own) for own, _ in keys]
    highest = max(kinds)
    lowest = min(highest, 2)  # floats tell how precise a complex result is
    tensors = [key for key, kind in zip(keys, kinds, strict=True) if kind >= lowest and not isinstance(key[0], type)]
    dtypes = [dtype for dtype, flat in tensors if not flat] or [dtype for dtype, _ in tensors]
    if highest < 2 and (floating or not dtypes):
        return default if floating else torch.int64 if highest else torch.bool
    dtype = functools.reduce(torch.promote_types, dtypes) if dtypes else default
    return dtype.to_complex() if highest == 3 else dtype


def _kind(own: Any) -> int:
    """Which of Python's types a dtype, or a number's type, is like."""
    if isinstance(own, type):
        return next(index for index, kind in enumerate(_KINDS) if issubclass(own, kind))
    return 3 if own.is_complex else 2 if own.is_floating_point else 0 if own is torch.bool else 1


def promote(op: Builder, *args: Any, dtype: torch.dtype | None = None, floating: bool = False) -> list[Tensor]:
    """The arguments as Tensors of the dtype in which torch computes with them (or of `dtype`)."""
    dtype = dtype or promoted_dtype(*args, floating=floating)
    return [op.cast(arg, dtype) for arg in args]


def to_float(op: Builder, x: Tensor) -> Tensor:
    """Ints and bools as float32, what floats as it is."""
    return x if x.dtype.is_floating_point else op.cast(x, torch.float32)


def dtype_of(dtype: torch.dtype | None, default: torch.dtype) -> torch.dtype:
    """An optional dtype argument."""
    return default if dtype is None else dtype
