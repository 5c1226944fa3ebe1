"""Packed sequences: the valid elements of a padded batch, step after step, and how many sequences reach each step.

Layers on packed data run padded, with the sequences' lengths, as ONNX does; where the packed form came from a padded one
in the same graph that one is used again (`op.notes`), and the packed form is only computed if something else needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of

__all__ = ["packed_layer"]


class _Layers(Protocol):
    def run(self, op: Builder, x: Tensor, states: Sequence[Tensor], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]: ...


def _mask(op: Builder, steps: Tensor, lengths: Tensor) -> Tensor:
    """(time, batch): is the step within the sequence?"""
    time = op.Unsqueeze(op.Range(0, steps, 1), [1])
    return op.Less(time, op.Unsqueeze(lengths, [0]))  # type: ignore[no-any-return]


def _length(op: Builder, x: Tensor) -> Tensor:
    """The size of axis 0 as a 0-d tensor."""
    return op.Squeeze(op.Slice(op.Shape(x), [0], [1]), [0])  # type: ignore[no-any-return]


def _packed(op: Builder, padded: Tensor, lengths: Tensor) -> Tensor:
    """The valid steps of a time-major padded batch, and the note of where they come from."""
    mask = op.Reshape(_mask(op, _length(op, padded), lengths), [-1])
    features = list((padded.shape or ())[2:])
    flat = op.Reshape(padded, [-1, *features] if all(isinstance(size, int) for size in features) else _merged(op, padded))
    data: Tensor = op.Compress(flat, mask, axis=0)
    op.notes["packed", data.value] = (padded, lengths)
    return data


def _merged(op: Builder, padded: Tensor) -> Tensor:
    return op.Concat(op.constant([-1]), op.Slice(op.Shape(padded), [2], [rank_of(op, padded)]), axis=0)  # type: ignore[no-any-return]


def _unpacked(op: Builder, data: Tensor, batch_sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The time-major padded batch (what is not valid holds some valid element) and the lengths."""
    noted: tuple[Tensor, Tensor] | None = op.notes.get(("packed", data.value))
    if noted is not None:
        return noted
    batch = op.Squeeze(op.Slice(batch_sizes, [0], [1]), [0])
    place = op.Less(op.Unsqueeze(op.Range(0, batch, 1), [0]), op.Unsqueeze(batch_sizes, [1]))
    counted = op.cast(place, torch.int64)
    lengths = op.ReduceSum(counted, axes=[0], keepdims=0)
    before = op.CumSum(batch_sizes, 0, exclusive=1)
    index = op.Mul(op.Add(op.Unsqueeze(before, [1]), op.Unsqueeze(op.Range(0, batch, 1), [0])), counted)
    return op.Gather(data, index, axis=0), lengths


@aten("_pack_padded_sequence")
def pack(op: Builder, input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    if batch_first:
        input = op.Transpose(input, perm=[1, 0, *range(2, rank_of(op, input))])
    lengths = op.cast(lengths, torch.int64)
    longest = op.ReduceMax(op.cast(lengths, torch.int32), axes=[0], keepdims=0)
    steps = op.cast(longest, torch.int64)
    reached = op.ReduceSum(op.cast(_mask(op, steps, lengths), torch.int64), axes=[1], keepdims=0)
    return _packed(op, input, lengths), reached


def packed_layer(op: Builder, layers: _Layers, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Recurrent layers on packed data: the packed output and the final states."""
    padded, lengths = _unpacked(op, data, batch_sizes)
    y, final = layers.run(op, padded, states, lengths)
    return _packed(op, y, lengths), *final


@aten("_pad_packed_sequence")
def pad(
    op: Builder, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: Any
) -> tuple[Tensor, Tensor]:
    """_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)
    -> (Tensor, Tensor)"""
    padded, lengths = _unpacked(op, data, batch_sizes)
    if isinstance(total_length, int) and total_length > 0:
        rank = rank_of(op, padded)
        missing = op.Max(op.Sub(total_length, _length(op, padded)), 0)
        padded = op.Pad(padded, op.Concat(op.constant([0] * rank), op.Unsqueeze(missing, [0]), op.constant([0] * (rank - 1)), axis=0))
    steps = total_length if not isinstance(total_length, int) or total_length > 0 else _length(op, batch_sizes)
    padded = op.Slice(padded, [0], [steps], [0])
    mask = op.Unsqueeze(_mask(op, _length(op, padded), lengths), list(range(2, rank_of(op, padded))))
    padded = op.Where(mask, padded, op.constant(padding_value, padded.dtype))
    if batch_first:
        padded = op.Transpose(padded, perm=[1, 0, *range(2, rank_of(op, padded))])
    return padded, lengths
