"""Recurrent layers: LSTM, GRU and RNN, on padded and on packed sequences.

Sources: the ONNX operators LSTM, GRU and RNN; torch stacks the gates as i, f, g, o (LSTM) and r, z, n (GRU), ONNX as
i, o, f, c and z, r, h.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten
from onnxexp_aten.packing import packed_layer

__all__ = ["Layers"]

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@dataclasses.dataclass(frozen=True)
class Layers:
    """A stack of recurrent layers as torch's operators describe it.

    Attributes:
        kind: LSTM, GRU or RNN.
        params: For each layer and direction: w_ih, w_hh, then b_ih, b_hh (with biases), then w_hr (with a projection).
        attributes: Attributes of the ONNX operator beyond hidden_size and direction.
    """

    kind: str
    params: Sequence[Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def weights(self, layer: int) -> list[Sequence[Tensor]]:
        """The parameters of one layer, by direction."""
        size = len(self.params) // (self.num_layers * self.directions)
        starts = [(layer * self.directions + direction) * size for direction in range(self.directions)]
        return [self.params[start : start + size] for start in starts]

    def run(self, op: Builder, x: Tensor, states: Sequence[Tensor], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Time-major `x` (time, batch, features) through all layers.

        Returns the last layer's output (time, batch, directions * hidden) and the final states
        (layers * directions, batch, hidden). `lengths` (batch,) int64 are the sequences' lengths, None where all are full.
        """
        finals: list[list[Tensor]] = [[] for _ in states]
        for layer in range(self.num_layers):
            start = [self._initial(op, state, layer) for state in states]
            if len(self.params) // (self.num_layers * self.directions) in (3, 5):
                from onnxexp_aten.projected import projected_layer

                x, final = projected_layer(op, x, self.weights(layer), self.has_biases, start, lengths)
            else:
                x, final = self._layer(op, x, layer, start, lengths)
            for collected, state in zip(finals, final, strict=True):
                collected.append(state)
            if self.train and self.dropout > 0 and layer + 1 < self.num_layers:
                x = op.Dropout(x, self.dropout, True)
        return x, [states[0] if len(states) == 1 else op.Concat(*states, axis=0) for states in finals]

    def _initial(self, op: Builder, state: Tensor, layer: int) -> Tensor | None:
        """One layer's initial state; None, which is ONNX's default, where it is zero."""
        if is_zero(state):
            return None
        if self.num_layers == 1:
            return state
        first = layer * self.directions
        return op.Slice(state, [first], [first + self.directions], [0])  # type: ignore[no-any-return]

    def _layer(
        self, op: Builder, x: Tensor, layer: int, start: Sequence[Tensor | None], lengths: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        weights = self.weights(layer)
        w = _stack(op, [gates(op, one[0], _GATES[self.kind]) for one in weights])
        r = _stack(op, [gates(op, one[1], _GATES[self.kind]) for one in weights])
        b = None
        if self.has_biases:
            b = _stack(op, [_join(op, [gates(op, bias, _GATES[self.kind]) for bias in one[2:4]]) for one in weights])
        hidden = weights[0][1].shape[-1]  # type: ignore[index]
        direction = "bidirectional" if self.bidirectional else None
        steps = None if lengths is None else op.cast(lengths, torch.int32)
        layer_op = op.call("", self.kind, x, w, r, b, steps, *start, hidden_size=hidden, direction=direction, outputs=1 + len(start), **self.attributes)
        y, *final = layer_op
        if self.bidirectional:
            return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, 2 * int(hidden)]), final
        return op.Squeeze(y, [1]), final


def gates(op: Builder, weight: Tensor, order: Sequence[int]) -> Tensor:
    """A weight or bias with its gates (equal parts of axis 0) in another order."""
    if len(order) == 1:
        return weight
    if weight.const is not None:
        parts = weight.const.chunk(len(order), 0)
        return op.constant(torch.cat([parts[index] for index in order]))
    split = op.Split(weight, [int(weight.shape[0]) // len(order)] * len(order), axis=0, outputs=len(order))  # type: ignore[index]
    return op.Concat(*(split[index] for index in order), axis=0)  # type: ignore[no-any-return]


def _stack(op: Builder, parts: Sequence[Tensor]) -> Tensor:
    rows = [op.Unsqueeze(part, [0]) for part in parts]
    return rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)  # type: ignore[no-any-return]


def _join(op: Builder, parts: Sequence[Tensor]) -> Tensor:
    return op.Concat(*parts, axis=0)  # type: ignore[no-any-return]


def is_zero(state: Tensor) -> bool:
    """Is this tensor known to hold only zeros: a constant, or zeros of a size that is known only at run time?"""
    if state.const is not None:
        return not bool(state.const.any())
    node = state.value.producer()
    if node is None:
        return False
    if node.op_type == "ConstantOfShape":
        return "value" not in node.attributes or not node.attributes["value"].value.numpy().any()
    filled = node.inputs[0].const_value if node.op_type == "Expand" and node.inputs[0] is not None else None
    return filled is not None and not filled.numpy().any()


def _padded(op: Builder, layers: Layers, input: Tensor, states: Sequence[Tensor], batch_first: bool) -> tuple[Tensor, ...]:
    """A call on padded input; an input without a batch axis is a batch of one."""
    unbatched = input.rank == 2
    if unbatched:
        input, states = op.Unsqueeze(input, [1]), [op.Unsqueeze(state, [1]) for state in states]
    elif batch_first:
        input = op.Transpose(input, perm=[1, 0, 2])
    y, final = layers.run(op, input, states, None)
    if unbatched:
        return op.Squeeze(y, [1]), *(op.Squeeze(state, [1]) for state in final)
    return (op.Transpose(y, perm=[1, 0, 2]) if batch_first else y), *final


@aten("lstm.input")
def lstm(op: Builder, input: Tensor, hx: list[Tensor], params: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
    bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    *form, batch_first = rest
    return _padded(op, Layers("LSTM", params, *form), input, hx, batch_first)


@aten("lstm.data")
def lstm_packed(op: Builder, data: Tensor, batch_sizes: Tensor, hx: list[Tensor], params: list[Tensor], *form: Any) -> tuple[Tensor, ...]:
    """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
    float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"""
    return packed_layer(op, Layers("LSTM", params, *form), data, batch_sizes, hx)


def _register(name: str, kind: str, attributes: dict[str, Any]) -> None:
    """GRU and the two plain RNNs have one signature."""

    def form(params: list[Tensor], rest: Sequence[Any]) -> Layers:
        both = {"activations": attributes["activations"] * (2 if rest[4] else 1)} if "activations" in attributes else attributes
        return Layers(kind, params, *rest, attributes=both)

    @aten(f"{name}.input")
    def padded(op: Builder, input: Tensor, hx: Tensor, params: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
        """gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
        bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
        return _padded(op, form(params, rest[:-1]), input, [hx], rest[-1])

    @aten(f"{name}.data")
    def packed(op: Builder, data: Tensor, batch_sizes: Tensor, hx: Tensor, params: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
        """gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers,
        float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""
        return packed_layer(op, form(params, rest), data, batch_sizes, [hx])


_register("gru", "GRU", {"linear_before_reset": 1})
_register("rnn_tanh", "RNN", {})
_register("rnn_relu", "RNN", {"activations": ["Relu"]})
