"""Recurrent cells, and layers as a Scan over cells.

The Scan serves layers that ONNX's operators cannot compute: projected LSTMs, and float64, for which ONNX Runtime has no kernels.
ONNX Runtime runs a cell faster than a layer of one step. Sources: the documentation of `torch.nn.LSTM`, `torch.nn.GRU` and
`torch.nn.RNN`; for the projection "Long Short-Term Memory Based Recurrent Neural Network Architectures for Large Vocabulary
Speech Recognition", Sak et al. 2014.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from onnxexp import Builder, Tensor
from onnxexp_aten.creation.ranges import valid_steps
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.tensor_sizes import known_size, run_time_size, size_at, with_shape
from onnxexp_aten.support.view_nodes import squeezed

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One step of a layer.

    `kind` and `relu` are as in `rnn.layers.Layers`. Weights are in torch's order.
    """

    kind: str
    has_biases: bool
    projected: bool
    relu: bool

    def widths(self, weights: Sequence[Tensor]) -> list[int]:
        """Return the widths of the hidden state and of LSTM's cell state.

        w_hh is (gates * hidden, hidden), and w_hr is (projection, hidden).
        """
        hidden = known_size(weights[1], 0) // _GATES[self.kind]
        width = known_size(weights[-1], 0) if self.projected else hidden
        return [width, hidden] if self.kind == "LSTM" else [width]

    def entering(self, op: Builder, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Compute the contribution of the input to the gates.

        The input is (batch, features), or (time, batch, features) for all steps at once.
        """
        bias = weights[2] if self.has_biases else None
        if bias is not None and self.kind != "GRU":
            bias = op.Add(bias, weights[3])
        return _linear(op, x, weights[0], bias)

    def step(self, op: Builder, entering: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
        """Compute the states after one step."""
        h = states[0]
        if self.kind == "GRU":
            return [self._gru(op, entering, _linear(op, h, weights[1], weights[3] if self.has_biases else None), h)]
        gates = _linear(op, h, weights[1], entering)
        if self.kind == "RNN":
            return [op.Relu(gates) if self.relu else op.Tanh(gates)]
        i, f, g, o = _parts(op, gates, 1, 1, 1, 1)
        cell = op.Add(op.Mul(op.Sigmoid(f), states[1]), op.Mul(op.Sigmoid(i), op.Tanh(g)))
        hidden = op.Mul(op.Sigmoid(o), op.Tanh(cell))
        return [_linear(op, hidden, weights[-1], None) if self.projected else hidden, cell]

    def _gru(self, op: Builder, entering: Tensor, recurrent: Tensor, h: Tensor) -> Tensor:
        (rz, n), (hrz, hn) = _parts(op, entering, 2, 1), _parts(op, recurrent, 2, 1)
        reset, update = _parts(op, op.Sigmoid(op.Add(rz, hrz)), 1, 1)
        new = op.Tanh(op.Add(n, op.Mul(reset, hn)))
        return op.Add(new, op.Mul(update, op.Sub(h, new)))


def _parts(op: Builder, x: Tensor, *shares: int) -> Sequence[Tensor]:
    """Split (batch, features) along the features, in these shares."""
    width = known_size(x, -1) // sum(shares)
    return op.Split(x, [share * width for share in shares], axis=1, outputs=len(shares))


def _linear(op: Builder, x: Tensor, weight: Tensor, addend: Tensor | None) -> Tensor:
    if addend is not None and x.rank == 2:
        return op.Gemm(x, weight, addend, transB=1)
    product = op.MatMul(x, op.Transpose(weight, perm=[1, 0]))
    return product if addend is None else op.Add(product, addend)


def scan_layer(
    op: Builder,
    cell: Cell,
    x: Tensor,
    weights: Sequence[Sequence[Tensor]],
    start: Sequence[Tensor | None],
    lengths: Tensor | None,
) -> tuple[Tensor, list[list[Tensor]]]:
    """Run one time-major layer as a Scan; `weights` are by direction.

    Returns (time, batch, directions * width), valid only within the lengths, and for each state its final value by direction,
    (1, batch, width).
    """
    inside = None if lengths is None else op.Unsqueeze(valid_steps(op, size_at(op, x, 0), lengths), [2])
    outputs: list[Tensor] = []
    finals: list[list[Tensor]] = [[] for _ in start]
    for direction, own in enumerate(weights):
        first = [
            _first(op, x, state, direction, len(weights), width) for state, width in zip(start, cell.widths(own), strict=True)
        ]
        *final, y = _direction(op, cell, x, own, first, inside, reverse=direction == 1)
        outputs.append(with_shape(y, [*(x.shape or ())[:2], cell.widths(own)[0]]))
        for collected, state in zip(finals, final, strict=True):
            collected.append(op.Unsqueeze(state, [0]))
    return outputs[0] if len(outputs) == 1 else op.Concat(*outputs, axis=2), finals


def _first(op: Builder, x: Tensor, state: Tensor | None, direction: int, directions: int, width: int) -> Tensor:
    """Return the initial state of one direction, (batch, width)."""
    if state is not None:
        own = state if directions == 1 else op.Slice(state, [direction], [direction + 1], [0])
        return squeezed(op, own, [0])
    assert x.shape is not None
    batch = x.shape[1]
    return with_shape(filled(op, [run_time_size(op, batch, [x]), width], 0, x.dtype), [batch, width])


def _direction(
    op: Builder,
    cell: Cell,
    x: Tensor,
    weights: Sequence[Tensor],
    first: Sequence[Tensor],
    inside: Tensor | None,
    *,
    reverse: bool,
) -> list[Tensor]:
    """Return the final states of one direction, and the outputs of all steps.

    Beyond its length a sequence keeps its states.
    """

    def body(*values: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        before, entering = values[: len(first)], values[len(first)]
        after = cell.step(op, entering, before, weights)
        if inside is not None:
            after = [op.Where(values[-1], now, then) for now, then in zip(after, before, strict=True)]
        return after, after[:1]

    entering = cell.entering(op, x, weights)
    return op.scan(body, first, [entering] if inside is None else [entering, inside], reverse=reverse)
