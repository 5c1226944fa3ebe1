"""Strided views of flattened tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.constant_of_shape import MAX_TABLE
from onnxexp_aten.support.tensor_sizes import sizes_of
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


@table("as_strided", "as_strided_copy")
def as_strided(op: Builder, self: Tensor, size: list[Any], stride: list[Any], storage_offset: Any) -> Tensor:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    sizes, own = sizes_of(op), self.shape or ()
    contiguous: list[int | None] = [1]
    for length in reversed([*own[1:]]):
        inner = contiguous[0]
        contiguous.insert(0, inner * length if isinstance(length, int) and inner is not None else None)
    offset = storage_offset or 0
    if sizes == own and offset == 0 and list(stride) == contiguous[: len(own)]:
        return self
    flat = self if len(own) == 1 else op.Reshape(self, [-1])
    places = strided_places(op, size, stride, offset)
    lengths = [length for length in own if isinstance(length, int)]
    if places.const is not None and len(lengths) == len(own):
        elements = torch.arange(math.prod(lengths))
        if torch.equal(places.const.reshape(-1), elements):
            return op.Reshape(flat, list(places.const.shape))
    return op.Gather(flat, places, axis=0)


def strided_places(op: Builder, size: list[Any], stride: list[Any], offset: Any) -> Tensor:
    """Return memory positions of a strided view's elements, int64[*size]."""
    if all(isinstance(each, int) for each in (*size, *stride, offset)) and math.prod(size) <= MAX_TABLE:
        known = torch.tensor(offset)
        for count, step in zip(size, stride, strict=True):
            known = known.unsqueeze(-1) + torch.arange(count) * step
        return op.constant(known)
    places = op.constant(offset, torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        steps = op.Mul(arange_of(op, 0, count, 1, torch.int64), step)
        places = op.Add(places, unsqueezed(op, steps, range(1, len(size) - axis)))
    return places
