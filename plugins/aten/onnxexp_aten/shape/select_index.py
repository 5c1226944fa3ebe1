"""Select one index of an axis."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, Tensor
from onnxexp_aten.support.tensor_sizes import with_shape


def select_slice(op: Builder, x: Tensor, axis: int, index: Any) -> Tensor:
    """Select one index of an axis: ``x.select(axis, index)``.

    The index must count from the front, unless the target opset's Gather takes negative ones.
    """
    made, shape = op.Gather(x, index, axis=axis), x.shape
    if shape is None or (isinstance(index, Tensor) and index.rank):
        return made
    return with_shape(made, [*shape[:axis], *shape[axis + 1 :]])
