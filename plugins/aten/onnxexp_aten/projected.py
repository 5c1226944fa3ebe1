"""LSTM with a projection of the hidden state, which ONNX's LSTM does not have: a Scan over its steps.

Source: "Long Short-Term Memory Based Recurrent Neural Network Architectures for Large Vocabulary Speech Recognition",
Sak et al. 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor

__all__ = ["projected_layer"]


def projected_layer(
    op: Builder,
    x: Tensor,
    weights: Sequence[Sequence[Tensor]],
    has_biases: bool,
    start: Sequence[Tensor | None],
    lengths: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    """One layer, as `Layers.run` has it: time-major in, (time, batch, directions * projection) out, and the final states."""
    if lengths is not None and len(weights) == 2:
        op.decline("a bidirectional LSTM with a projection on packed sequences")
    outputs, hidden, cell = [], [], []
    for direction, one in enumerate(weights):
        first = [_state(op, x, state, direction, width) for state, width in zip(start, (one[-1].shape, one[1].shape), strict=True)]
        h, c, y = _direction(op, x, one, has_biases, first, lengths, reverse=direction == 1)
        outputs.append(y)
        hidden.append(op.Unsqueeze(h, [0]))
        cell.append(op.Unsqueeze(c, [0]))
    if len(outputs) == 1:
        return outputs[0], [hidden[0], cell[0]]
    return op.Concat(*outputs, axis=2), [op.Concat(*hidden, axis=0), op.Concat(*cell, axis=0)]


def _state(op: Builder, x: Tensor, state: Tensor | None, direction: int, shape: Any) -> Tensor:
    """The initial state of one direction, (batch, width); w_hr is (projection, hidden), w_hh (4 * hidden, projection)."""
    if state is not None:
        return op.Squeeze(op.Slice(state, [direction], [direction + 1], [0]), [0])  # type: ignore[no-any-return]
    width = int(shape[0]) if shape[0] < shape[1] or shape[0] % 4 else int(shape[0]) // 4
    batch = op.Slice(op.Shape(x), [1], [2])
    zero = op.constant(torch.zeros(1, dtype=x.dtype))
    return op.ConstantOfShape(op.Concat(batch, op.constant([width]), axis=0), value=zero)  # type: ignore[no-any-return]


def _direction(
    op: Builder, x: Tensor, weights: Sequence[Tensor], has_biases: bool, first: Sequence[Tensor], lengths: Tensor | None, *, reverse: bool
) -> list[Tensor]:
    w_ih, w_hh, w_hr = weights[0], weights[1], weights[-1]
    gates = op.MatMul(x, op.Transpose(w_ih, perm=[1, 0]))
    if has_biases:
        gates = op.Add(gates, op.Add(weights[2], weights[3]))
    size = int(w_hh.shape[0]) // 4  # type: ignore[index]
    step = op.constant(0)

    def body(h: Tensor, c: Tensor, t: Tensor, current: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        i, f, g, o = op.Split(op.Add(current, op.MatMul(h, op.Transpose(w_hh, perm=[1, 0]))), [size] * 4, axis=1, outputs=4)
        cell = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
        hidden = op.MatMul(op.Mul(op.Sigmoid(o), op.Tanh(cell)), op.Transpose(w_hr, perm=[1, 0]))
        if lengths is None:
            return [hidden, cell, op.Add(t, 1)], [hidden]
        within = op.Unsqueeze(op.Less(t, lengths), [1])
        return [op.Where(within, hidden, h), op.Where(within, cell, c), op.Add(t, 1)], [hidden]

    h, c, _, y = op.scan(body, [*first, step], [gates], reverse=reverse)
    return [h, c, y]
