"""Recurrent layers: LSTM, GRU and RNN, on padded and packed sequences.

torch stacks the gates as i, f, g, o (LSTM) and r, z, n (GRU). ONNX stacks them as i, o, f, c and z, r, h. A Scan in
`recurrent_cells` replaces layers that ONNX's operators cannot compute.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.nn.dropout import dropped
from onnxexp_aten.rnn.packed_sequences import packed_layer
from onnxexp_aten.rnn.recurrent_cells import Cell, scan_layer
from onnxexp_aten.support.kernel_dtypes import running_dtype, runs
from onnxexp_aten.support.tensor_sizes import known_size
from onnxexp_aten.support.view_nodes import permuted, reshaped, squeezed, unsqueezed

table = SymbolicTable("aten")

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Order of ONNX's gates, as positions in torch's weights."""
_REARRANGING = ("Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


@dataclasses.dataclass(frozen=True)
class Layers:
    """Stack of recurrent layers.

    Attributes:
        kind: LSTM, GRU or RNN.
        params: For each layer and direction: w_ih, w_hh, then b_ih, b_hh (with biases), then w_hr (with a projection).
        relu: The activation of an RNN is relu, not tanh.
    """

    kind: str
    params: Sequence[Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    relu: bool = False

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def weights(self, layer: int) -> list[Sequence[Tensor]]:
        """Return the parameters of one layer, by direction."""
        size = len(self.params) // (self.num_layers * self.directions)
        starts = [(layer * self.directions + direction) * size for direction in range(self.directions)]
        return [self.params[start : start + size] for start in starts]

    def run(
        self, op: Builder, x: Tensor, states: Sequence[Tensor], lengths: Tensor | None, *, batch_first: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Run time-major `x` (time, batch, features) through all layers.

        Returns the last layer's output (time, batch, directions * hidden), or (batch, time, ...) with `batch_first`, and the
        final states (layers * directions, batch, hidden). `lengths`, int64 (batch,), is None where all sequences are full.
        """
        finals: list[list[Tensor]] = [[] for _ in states]
        starts = [self._initial(op, state) for state in states]
        for layer in range(self.num_layers):
            last = layer + 1 == self.num_layers
            x, final = self._layer(op, x, layer, [start[layer] for start in starts], lengths, batch_first=batch_first and last)
            for collected, state in zip(finals, final, strict=True):
                collected += state
            if self.train and self.dropout > 0 and not last:
                x = dropped(op, x, self.dropout)[0]
        return x, [states[0] if len(states) == 1 else op.Concat(*states, axis=0) for states in finals]

    def _initial(self, op: Builder, state: Tensor) -> Sequence[Tensor | None]:
        """Return the initial state of each layer, or None, ONNX's default, for zeros."""
        if is_zero(op, state):
            return [None] * self.num_layers
        if self.num_layers == 1:
            return [state]
        return op.Split(state, [self.directions] * self.num_layers, axis=0, outputs=self.num_layers)

    def _layer(
        self, op: Builder, x: Tensor, layer: int, start: Sequence[Tensor | None], lengths: Tensor | None, *, batch_first: bool
    ) -> tuple[Tensor, Sequence[list[Tensor]]]:
        """Return the output of one layer, and pieces of its final states along axis 0."""
        weights = self.weights(layer)
        projected = len(weights[0]) % 2 == 1
        if projected or (x.dtype == torch.float64 and not runs(op, self.kind, x.dtype)):
            y, final = scan_layer(op, Cell(self.kind, self.has_biases, projected, self.relu), x, weights, start, lengths)
            return swapped_batch(op, y) if batch_first else y, final
        y, *states = self._native(op, x, weights, start, lengths)
        pieces = [[state] for state in states]
        if not self.bidirectional:
            y = squeezed(op, y, [1])
            return swapped_batch(op, y) if batch_first else y, pieces
        y = op.Transpose(y, perm=[2, 0, 1, 3] if batch_first else [0, 2, 1, 3])
        return reshaped(op, y, [*(y.shape or ())[:2], 2 * known_size(y, 3)]), pieces

    def _native(
        self, op: Builder, x: Tensor, weights: Sequence[Sequence[Tensor]], start: Sequence[Tensor | None], lengths: Tensor | None
    ) -> list[Tensor]:
        """Apply ONNX's operator.

        Returns the output (time, directions, batch, hidden) and the final states.
        """
        dtype = running_dtype(op, self.kind, x.dtype)
        w, r = (_arranged(op, [one[index : index + 1] for one in weights], self.kind, dtype) for index in (0, 1))
        b = _arranged(op, [one[2:4] for one in weights], self.kind, dtype) if self.has_biases else None
        steps = None if lengths is None else op.cast(lengths, torch.int32)
        first = [None if state is None else op.cast(state, dtype) for state in start]
        attributes: dict[str, Any] = {"hidden_size": known_size(weights[0][1], -1)}
        if self.bidirectional:
            attributes["direction"] = "bidirectional"
        if self.kind == "GRU":
            attributes["linear_before_reset"] = 1
        if self.relu:
            attributes["activations"] = ["Relu"] * self.directions
        results = op.call("", self.kind, op.cast(x, dtype), w, r, b, steps, *first, outputs=1 + len(start), **attributes)
        return [op.cast(result, weights[0][0].dtype) for result in results]


def _arranged(op: Builder, weights: Sequence[Sequence[Tensor]], kind: str, dtype: torch.dtype) -> Tensor:
    """Arrange weights or biases for ONNX: (directions, gates * hidden, ...)."""
    flat, order = [weight for one in weights for weight in one], _GATES[kind]
    if op.fold and op.is_static(flat) and (len(flat) > 1 or len(order) > 1):
        return op.deferred(functools.partial(_stacked, len(weights), order, dtype), *flat)
    rows = [[_reordered(op, op.cast(weight, dtype), order) for weight in one] for one in weights]
    joined = [op.Unsqueeze(one[0] if len(one) == 1 else op.Concat(*one, axis=0), [0]) for one in rows]
    return joined[0] if len(joined) == 1 else op.Concat(*joined, axis=0)


def _stacked(directions: int, order: Sequence[int], dtype: torch.dtype, *weights: torch.Tensor) -> torch.Tensor:
    parts = [part for weight in weights for part in map(weight.chunk(len(order)).__getitem__, order)]
    return torch.cat(parts).reshape(directions, -1, *weights[0].shape[1:]).to(dtype)


def _reordered(op: Builder, weight: Tensor, order: Sequence[int]) -> Tensor:
    """Reorder the gates of a weight or bias, equal parts of axis 0."""
    if len(order) == 1:
        return weight
    split = op.Split(weight, [known_size(weight, 0) // len(order)] * len(order), axis=0, outputs=len(order))
    return op.Concat(*(split[index] for index in order), axis=0)


def is_zero(op: Builder, state: Tensor) -> bool:
    """Return whether a tensor is provably zero: a constant, or zeros of dynamic size."""
    while state.const is None:
        node = op.producer(state)  # a range of values: a zero state becomes no input at all, so there is nothing left to match
        if node is not None and node.operator == "ConstantOfShape":
            return "value" not in node.attributes or not bool(node.attributes["value"].any())
        source = node.inputs[0] if node is not None and node.operator in (*_REARRANGING, "Expand") else None
        if source is None:
            return False
        state = source
    return not bool(state.const.any())


def swapped_batch(op: Builder, x: Tensor) -> Tensor:
    """Exchange axes 0 and 1, without a copy where one of them has size 1."""
    sizes = x.shape or ()
    if 1 in sizes[:2]:
        axis = sizes.index(1)
        return unsqueezed(op, squeezed(op, x, [axis]), [1 - axis])
    return permuted(op, x, [1, 0, *range(2, len(sizes))])


def _padded(op: Builder, layers: Layers, input: Tensor, states: Sequence[Tensor], batch_first: bool) -> tuple[Tensor, ...]:
    y, final = layers.run(op, swapped_batch(op, input) if batch_first else input, states, None, batch_first=batch_first)
    return y, *final


@table("lstm.input")
def lstm(op: Builder, input: Tensor, hx: list[Tensor], params: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
    bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    *form, batch_first = rest
    return _padded(op, Layers("LSTM", params, *form), input, hx, batch_first)


@table("lstm.data")
def lstm_packed(
    op: Builder, data: Tensor, batch_sizes: Tensor, hx: list[Tensor], params: list[Tensor], *form: Any
) -> tuple[Tensor, ...]:
    """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
    float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"""
    return packed_layer(op, Layers("LSTM", params, *form), data, batch_sizes, hx)


def _register(name: str, layers: Callable[..., Layers]) -> None:
    """Register a layer with the signature that GRU and both plain RNNs share."""

    def padded(op: Builder, input: Tensor, hx: Tensor, params: list[Tensor], *rest: Any) -> tuple[Tensor, ...]:
        *form, batch_first = rest
        return _padded(op, layers(params, *form), input, [hx], batch_first)

    def packed(
        op: Builder, data: Tensor, batch_sizes: Tensor, hx: Tensor, params: list[Tensor], *form: Any
    ) -> tuple[Tensor, ...]:
        return packed_layer(op, layers(params, *form), data, batch_sizes, [hx])

    form = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
    padded.__doc__ = f"{name}.input(Tensor input, Tensor hx, Tensor[] params, {form}, bool batch_first) -> (Tensor, Tensor)"
    packed.__doc__ = f"{name}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, {form}) -> (Tensor, Tensor)"
    table(f"{name}.input")(padded)
    table(f"{name}.data")(packed)


_register("gru", lambda params, *form: Layers("GRU", params, *form))
_register("rnn_tanh", lambda params, *form: Layers("RNN", params, *form))
_register("rnn_relu", lambda params, *form: dataclasses.replace(Layers("RNN", params, *form), relu=True))


# Cells


@table("lstm_cell")
def lstm_cell(op: Builder, input: Tensor, hx: list[Tensor], *params: Tensor | None) -> tuple[Tensor, ...]:
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)
    -> (Tensor, Tensor)"""
    return _step(op, "LSTM", input, hx, params)


def _register_cell(name: str, kind: str, *, relu: bool = False) -> None:
    def cell(op: Builder, input: Tensor, hx: Tensor, *params: Tensor | None) -> Tensor:
        return _step(op, kind, input, [hx], params, relu=relu)[0]

    cell.__doc__ = f"{name}(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"
    table(name)(cell)


_register_cell("gru_cell", "GRU")
_register_cell("rnn_tanh_cell", "RNN")
_register_cell("rnn_relu_cell", "RNN", relu=True)


def _step(
    op: Builder, kind: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor | None], *, relu: bool = False
) -> tuple[Tensor, ...]:
    weights = [param for param in params if param is not None]
    cell = Cell(kind, has_biases=len(weights) == 4, projected=False, relu=relu)
    return tuple(cell.step(op, cell.entering(op, x, weights), states, weights))
