"""Rewrite ``resize_`` of a tensor to fewer elements as views of its memory."""

from __future__ import annotations

import math
from typing import NoReturn

import torch

from onnxexp._functionalize.mutation import RESIZE_FIX, MutationInfo
from onnxexp._functionalize.node_emitter import same_sizes
from onnxexp._functionalize.normalize_views import ViewCall
from onnxexp._functionalize.places import Ref, View, refuse
from onnxexp._neutral_graph import TensorType, Type


def first_elements(call: ViewCall, after: Type) -> Ref:
    """Return the place of a tensor after ``resize_`` or ``resize_as_``.

    The place is the first elements in memory. Raises CaptureError where these are not certain.
    """
    before, dtype = call.ref.type.sizes, call.ref.type.dtype
    sizes = after.sizes if isinstance(after, TensorType) else None
    if same_sizes(before, sizes):
        return call.ref
    old = [size for size in before or () if isinstance(size, int)]
    new = [size for size in sizes or () if isinstance(size, int)]
    index = MutationInfo.of(call.node.op).memory_format
    if before is None or sizes is None or len(old) < len(before) or len(new) < len(sizes):
        _refuse(call, "whose sizes depend on the run time")
    if index is not None and call.node.args[index] not in (None, torch.contiguous_format, 0):
        _refuse(call, "to another memory format")
    count, total = math.prod(new), math.prod(old)
    if count > total:
        _refuse(call, f"from {total} to {count} elements: the last ones are undefined")
    if not call.contiguous:
        _refuse(call, "whose order in memory is not certain")
    place, where = call.ref, call.node.where
    steps = (
        (View("aten::view", ((total,),)), (total,)),
        (View("aten::slice.Tensor", (0, 0, count, 1)), (count,)),
        (View("aten::view", (tuple(new),)), tuple(new)),
    )
    for view, shape in steps:
        place = call.memory.child(place, view, call.emit.value(place.name, TensorType(dtype, shape)), where)
    return place


def _refuse(call: ViewCall, why: str) -> NoReturn:
    refuse(f"{call.node.op} resizes a tensor {why}", call.node.where, RESIZE_FIX)
