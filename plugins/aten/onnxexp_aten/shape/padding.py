"""Padding: constant, reflected, replicated or circular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.support.kernel_dtypes import running_dtype, targets_plain_onnx
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import END

table = SymbolicTable("aten")

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Modes: torch's names and ONNX's."""


def padded(op: Builder, x: Tensor, pad: Sequence[Any], mode: str = "constant", value: Any = None) -> Tensor:
    """Pad `x` by torch's `pad`: (before, after) pairs from the last axis on.

    Negative amounts crop. Amounts may be dynamic from opset 11 on; in the constant mode dynamic amounts may be negative.
    """
    rank = rank_of(op, x)
    if mode == "replicate" and any(isinstance(amount, int) and amount < 0 for amount in pad):
        return _nearest(op, x, _amounts(op, pad))
    if mode == "reflect" and any(isinstance(amount, int) and amount < 0 for amount in pad):  # what is cropped is reflected too
        return _cropped(op, padded(op, x, list(map(_not_negative, pad)), mode), _amounts(op, pad))[0]
    x, amounts = _cropped(op, x, _amounts(op, pad))
    if all(isinstance(amount, int) and amount == 0 for pair in amounts for amount in pair):
        return x
    if mode == "circular" and not targets_plain_onnx(op, since=19):  # ONNX Runtime has no kernel for the mode "wrap" of opset 19
        return _around(op, x, amounts)
    amounts = amounts + [(0, 0)] * (rank - len(amounts))
    begins = [begin for begin, _ in reversed(amounts)]
    ends = [end for _, end in reversed(amounts)]
    inner = running_dtype(op, "Pad", x.dtype)
    data = op.cast(x, inner)
    fill = _fill(op, value, x.dtype, inner) if mode == "constant" else None
    name = _MODES.get(mode)
    return op.cast(op.Pad(data, [*begins, *ends], fill, mode=name), x.dtype)


def _amounts(op: Builder, pad: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return pairs (before, after) from the last axis on; static amounts are ints."""
    flat = [int(op.static(amount)) if op.is_static(amount) else amount for amount in pad]
    return list(zip(flat[::2], flat[1::2], strict=True))


def _fill(op: Builder, value: Any, dtype: torch.dtype, inner: torch.dtype) -> Tensor | None:
    """Return the fill value in the tensor's dtype, or None for zero, ONNX's default."""
    if value is None or (not isinstance(value, Tensor) and value == 0):
        return None
    if isinstance(value, Tensor):
        return op.cast(op.cast(value, dtype), inner)
    return op.constant(torch.tensor(value).to(dtype).to(inner))


def _cropped(op: Builder, x: Tensor, amounts: list[tuple[Any, Any]]) -> tuple[Tensor, list[tuple[Any, Any]]]:
    """Crop `x` by the negative amounts; return it and the other amounts."""
    rank, slices = rank_of(op, x), []
    for place, pair in enumerate(amounts):
        begin, end = (-amount if isinstance(amount, int) and amount < 0 else 0 for amount in pair)
        if begin or end:
            slices.append((rank - 1 - place, begin, -end if end else END))
    if slices:
        axes, starts, ends = (list(column) for column in zip(*reversed(slices), strict=True))
        x = op.Slice(x, starts, ends, axes=axes)
    return x, [(_not_negative(begin), _not_negative(end)) for begin, end in amounts]


def _not_negative(amount: Any) -> Any:
    return max(amount, 0) if isinstance(amount, int) else amount


def _nearest(op: Builder, x: Tensor, amounts: list[tuple[Any, Any]]) -> Tensor:
    """Replicate by gathering the nearest elements, where an axis is also cropped.

    Cropping first could leave nothing to replicate.
    """
    for place, (begin, end) in enumerate(amounts):
        axis = rank_of(op, x) - 1 - place
        if begin == end == 0:
            continue
        size = op.constant(size_at(op, x, axis), torch.int64)
        places = arange_of(op, op.Neg(op.constant(begin, torch.int64)), op.Add(size, end), 1, torch.int64)
        places = extreme(op, "Min", extreme(op, "Max", places, op.constant(0)), op.Sub(size, 1))
        x = op.Gather(x, places, axis=axis)
    return x


def _around(op: Builder, x: Tensor, amounts: list[tuple[Any, Any]]) -> Tensor:
    """Pad circularly: join the other end to each axis in turn."""
    for place, (begin, end) in enumerate(amounts):
        axis = rank_of(op, x) - 1 - place
        pieces = [x]
        if not (isinstance(begin, int) and begin == 0):
            start = -begin if isinstance(begin, int) else op.Sub(size_at(op, x, axis), begin)  # -0 would be the front
            pieces.insert(0, op.Slice(x, [start], [END], axes=[axis]))
        if not (isinstance(end, int) and end == 0):
            pieces.append(op.Slice(x, [0], [end], axes=[axis]))
        x = op.Concat(*pieces, axis=axis) if len(pieces) > 1 else x
    return x


@table("pad")
def pad(op: Builder, self: Tensor, pad: list[Any], mode: str, value: Any) -> Tensor:
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    return padded(op, self, pad, mode, value)


@table("_pad_enum")
def pad_enum(op: Builder, self: Tensor, pad: list[Any], mode: int, value: Any) -> Tensor:
    """_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor"""
    return padded(op, self, pad, ("reflect", "replicate", "circular", "constant")[mode], value)


@table("constant_pad_nd")
def constant_pad(op: Builder, self: Tensor, pad: list[Any], value: Any) -> Tensor:
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    return padded(op, self, pad, "constant", value)


@table("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(op: Builder, self: Tensor, padding: list[Any]) -> Tensor:
    """reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return padded(op, self, padding, "reflect")


@table("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(op: Builder, self: Tensor, padding: list[Any]) -> Tensor:
    """replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return padded(op, self, padding, "replicate")


@table("_pad_circular")
def circular_pad(op: Builder, self: Tensor, pad: list[Any]) -> Tensor:
    """_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return padded(op, self, pad, "circular")
