"""Packed sequences.

A packed sequence has the valid elements of a padded batch, step by step, and the number of sequences at each step. Layers run
on the padded form with lengths, as ONNX's operators do. `plugin_data` maps a packed form to the padded form it came from. The
packed form is dead code unless something else uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of, valid_steps
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.support.kernel_dtypes import compress, compute
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import run_time_size, size_at, sizes_of, vector, with_shape
from onnxexp_aten.support.view_nodes import permuted, sliced

table = SymbolicTable("aten")


class _Layers(Protocol):
    def run(self, op: Builder, x: Tensor, states: Sequence[Tensor], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]: ...


def _packed(op: Builder, padded: Tensor, lengths: Tensor) -> Tensor:
    """Pack a time-major padded batch, and note where it came from."""
    assert padded.shape is not None
    features = [run_time_size(op, size, [padded]) for size in padded.shape[2:]]
    mask = op.Reshape(valid_steps(op, size_at(op, padded, 0), lengths), [-1])
    data: Tensor = compress(op, op.Reshape(padded, vector(op, [-1, *features])), mask, axis=0)
    op.context.plugin_data["aten.packed", data.value] = (padded, lengths)
    return data


def _unpacked(op: Builder, data: Tensor, batch_sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return a time-major padded batch and lengths; invalid steps are arbitrary."""
    noted: tuple[Tensor, Tensor] | None = op.context.plugin_data.get(("aten.packed", data.value))
    if noted is not None:
        return noted
    place = arange_of(op, 0, op.Gather(batch_sizes, 0, axis=0), 1, torch.int64)
    reached = op.cast(op.Less(op.Unsqueeze(place, [0]), op.Unsqueeze(batch_sizes, [1])), torch.int64)
    lengths = op.ReduceSum(reached, axes=[0], keepdims=0)
    before = op.CumSum(batch_sizes, 0, exclusive=1)
    index = op.Mul(op.Add(op.Unsqueeze(before, [1]), op.Unsqueeze(place, [0])), reached)
    padded = op.Gather(data, index, axis=0)
    return with_shape(padded, [*(batch_sizes.shape or ())[:1], *(padded.shape or ())[1:]]), lengths


@table("_pack_padded_sequence")
def pack(op: Builder, input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    padded = _swapped(op, input) if batch_first else input
    lengths = op.cast(lengths, torch.int64)
    steps = compute(op, "ReduceMax", lengths, axes=[0], keepdims=0)
    reached = op.ReduceSum(op.cast(valid_steps(op, steps, lengths), torch.int64), axes=[1], keepdims=0)
    op.context.plugin_data["aten.steps", reached.value] = steps
    return _packed(op, padded, lengths), reached


def packed_layer(op: Builder, layers: _Layers, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run recurrent layers on packed data.

    Returns the packed output and the final states.
    """
    padded, lengths = _unpacked(op, data, batch_sizes)
    y, final = layers.run(op, padded, states, lengths)
    return _packed(op, y, lengths), *final


@table("_pad_packed_sequence")
def pad(
    op: Builder, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: Any
) -> tuple[Tensor, Tensor]:
    """_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)
    -> (Tensor, Tensor)"""
    padded, lengths = _unpacked(op, data, batch_sizes)
    sizes = sizes_of(op)
    assert sizes is not None and padded.shape is not None and batch_sizes.shape is not None
    wanted, longest = sizes[1 if batch_first else 0], padded.shape[0]
    steps: Any = size_at(op, padded, 0)
    if wanted == batch_sizes.shape[0]:
        steps = op.context.plugin_data.get(("aten.steps", batch_sizes.value), steps)
        padded = padded if longest == wanted else sliced(op, padded, 0, 0, steps)
    elif wanted != longest:
        steps, padded = total_length, _resized(op, padded, total_length)
    inside = op.Unsqueeze(valid_steps(op, steps, lengths), list(range(2, rank_of(op, padded))))
    padded = select(op, inside, padded, op.constant(padding_value, padded.dtype))
    return _swapped(op, padded) if batch_first else padded, lengths


def _resized(op: Builder, padded: Tensor, steps: Any) -> Tensor:
    """Return the first `steps` steps, and repeat the last one beyond the end."""
    last = op.Sub(size_at(op, padded, 0), 1)
    index = extreme(op, "Min", arange_of(op, 0, steps, 1, torch.int64), last)
    return op.Gather(padded, index, axis=0)


def _swapped(op: Builder, x: Tensor) -> Tensor:
    return permuted(op, x, [1, 0, *range(2, rank_of(op, x))])
