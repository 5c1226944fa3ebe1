"""Type promotion by torch's rules."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.rewriting import onnx_dtype

_KINDS = (bool, int, float, complex)


def promoted_dtype(*args: Any, floating: bool = False) -> torch.dtype:
    """Return the dtype in which torch computes with these Tensors and Python numbers.

    With `floating`, ints become the default float dtype.
    """
    keys = tuple([_key(arg) for arg in args if arg is not None])
    return _promoted(keys, floating, torch.get_default_dtype())


def _key(arg: Any) -> tuple[Any, bool]:
    """Return (dtype, whether 0-d) of a tensor, or (Python type, True) of a number."""
    if isinstance(arg, Tensor):
        return (arg.scalar, True) if arg.scalar else (arg.dtype, arg.rank == 0)
    return type(arg), True


@functools.lru_cache(maxsize=None)
def _promoted(keys: tuple[tuple[Any, bool], ...], floating: bool, default: torch.dtype) -> torch.dtype:
    """Return the promoted dtype of the highest kind: bool, int, float or complex.

    0-d tensors count only where no other tensor has the highest kind.
    """
    kinds = [_kind(own) for own, _ in keys]
    highest = max(kinds)
    lowest = min(highest, 2)  # the precision of floats carries over to a complex result
    tensors = [key for key, kind in zip(keys, kinds, strict=True) if kind >= lowest and not isinstance(key[0], type)]
    dtypes = [dtype for dtype, flat in tensors if not flat] or [dtype for dtype, _ in tensors]
    if highest < 2 and (floating or not dtypes):
        return default if floating else torch.int64 if highest else torch.bool
    dtype = functools.reduce(torch.promote_types, dtypes) if dtypes else default
    return dtype.to_complex() if highest == 3 else dtype


def _kind(own: Any) -> int:
    """Return the kind of a dtype or of a Python type, as an index of `_KINDS`."""
    if isinstance(own, type):
        return next(index for index, kind in enumerate(_KINDS) if issubclass(own, kind))
    return 3 if own.is_complex else 2 if own.is_floating_point else 0 if own is torch.bool else 1


def promote(
    op: Builder, *args: Any, dtype: torch.dtype | None = None, floating: bool = False, rounded: bool = True
) -> list[Tensor]:
    """Cast arguments to the dtype in which torch computes, or to `dtype`.

    A Python int outside of an integer dtype wraps, as in eager. Without `rounded`, a 0-d tensor may keep more digits than float16
    has, as in torch's kernels for a product and a quotient.
    """
    dtype = dtype or promoted_dtype(*args, floating=floating)
    cast = [op.cast(op.constant(arg) if _wraps(arg, dtype) else arg, dtype) for arg in args]
    return [_rounded(op, new) if rounded and _is_narrowed(arg, dtype) else new for arg, new in zip(args, cast, strict=True)]


def _is_narrowed(arg: Any, dtype: torch.dtype) -> bool:
    """Return whether a 0-d tensor of the call loses digits by the cast to a dtype."""
    if dtype != torch.float16 or not isinstance(arg, Tensor) or arg.rank != 0 or arg.const is not None:
        return False
    return arg.dtype.is_floating_point and arg.dtype != dtype


def _rounded(op: Builder, x: Tensor) -> Tensor:
    """Cast back and forth: ONNX Runtime removes a single Cast to float16."""
    for dtype in (torch.float32, torch.float16):
        (x,) = op.emit("", "Cast", [x], {"to": int(onnx_dtype(dtype))})
    return x


def _wraps(arg: Any, dtype: torch.dtype) -> bool:
    """Return whether a Python int is outside of an integer dtype."""
    if type(arg) is not int or dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
        return False
    return not torch.iinfo(dtype).min <= arg <= torch.iinfo(dtype).max


def to_float(op: Builder, x: Tensor) -> Tensor:
    """Cast ints and bools to float32."""
    return x if x.dtype.is_floating_point else op.cast(x, torch.float32)


def dtype_of(dtype: torch.dtype | None, default: torch.dtype) -> torch.dtype:
    """Return an optional dtype argument, or its default."""
    return default if dtype is None else dtype
