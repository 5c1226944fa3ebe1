"""Dynamically quantized recurrent layers and cells.

A cell computes its gates with integer products, as torch does. A layer keeps its integer weights in the file and runs as ONNX's
LSTM or GRU on dequantized ones: torch quantizes the state at each step, and ONNX has no such operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from onnxexp import CaptureError
from onnxexp_quantized.capture.dynamic import linear, linear_fp16
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedCell, PackedWeight
from onnxexp_quantized.capture.run_time_operators import dequantized, recurrent_layer

table = FunctionTable()


def lstm(
    input: torch.Tensor, *args: Any, dtype: torch.dtype | None = None, use_dynamic: bool = False
) -> tuple[torch.Tensor, ...]:
    """Replace `torch.quantized_lstm` on unpacked parameters."""
    return _run("lstm", input, *args)


def gru(input: torch.Tensor, *args: Any) -> tuple[torch.Tensor, ...]:
    """Replace `torch.quantized_gru` on unpacked parameters."""
    return _run("gru", input, *args)


def packed_sequences() -> list[tuple[Any, str, Callable[..., Any]]]:
    """List the methods that read the number of sequences as an int."""
    from torch.ao.nn.quantized import dynamic

    methods: dict[str, Callable[..., Any]] = {"forward_packed": _forward_packed, "check_forward_args": _check_forward_args}
    owners: list[Any] = [dynamic.LSTM, dynamic.GRU]
    return [(owner, name, method) for owner in owners for name, method in methods.items()]


def _forward_packed(self: Any, input: PackedSequence, hx: Any = None) -> tuple[PackedSequence, Any]:
    data, batch_sizes, sorted_indices, unsorted_indices = input
    assert batch_sizes is not None
    output, hidden = self.forward_impl(data, hx, batch_sizes, batch_sizes[0], sorted_indices)
    packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
    return packed, self.permute_hidden(hidden, unsorted_indices)


def _check_forward_args(self: Any, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
    self.check_input(input, batch_sizes)


def _run(name: str, input: torch.Tensor, *args: Any) -> tuple[torch.Tensor, ...]:
    """Run the layers on padded sequences, or on packed ones with their batch sizes.

    torch's kernels always add the packed biases; the argument `has_biases` has no effect.
    """
    packed = not isinstance(args[2], bool)
    states, cells, _, num_layers, dropout, train, bidirectional, *batch_first = args[1 if packed else 0 :]
    if not all(isinstance(cell, PackedCell) for cell in cells):
        raise CaptureError(
            f"a quantized {name} has weights that are packed neither for dynamic quantization nor in float16; to fix this, use "
            "the layers of torch.ao.nn.quantized.dynamic"
        )
    if train and dropout > 0:
        raise CaptureError(f"a quantized {name} has no dropout in training mode; to fix this, call model.eval()")
    if packed:
        function = getattr(torch._VF, name)  # by the layer's name; onnxexp keeps a layer on packed sequences whole
        params = [part for cell in cells for part in _float_parameters(cell)]
        result: tuple[torch.Tensor, ...] = function(
            input, args[0], states, params, bool(cells[0].biases), num_layers, 0.0, False, bidirectional
        )
        return result
    time_major = input.transpose(0, 1) if batch_first[0] else input
    directions = 2 if bidirectional else 1
    starts = states if name == "lstm" else [states]
    finals: list[list[torch.Tensor]] = []
    for layer in range(num_layers):
        part = slice(layer * directions, (layer + 1) * directions)
        y, *final = recurrent_layer(name, time_major, [state[part] for state in starts], cells[part])
        finals.append(final)
        time_major = y
    joined = [state[0] if num_layers == 1 else torch.cat(state) for state in zip(*finals, strict=True)]
    return time_major.transpose(0, 1) if batch_first[0] else time_major, *joined


def _float_parameters(cell: PackedCell) -> list[torch.Tensor]:
    return [dequantized(cell.input), dequantized(cell.state), *cell.biases]


def _gates(input: torch.Tensor, state: torch.Tensor, of_input: PackedWeight, of_state: PackedWeight) -> tuple[torch.Tensor, ...]:
    """Return the products with input and state, which torch quantizes to 7 bits."""
    pairs = ((input, of_input), (state, of_state))
    return tuple(linear_fp16(x, packed) if packed.is_half else linear(x, packed, reduce_range=True) for x, packed in pairs)


@table("quantized::quantized_lstm_cell_dynamic")
def _lstm_cell(
    input: torch.Tensor, hx: Sequence[torch.Tensor], w_ih: PackedWeight, w_hh: PackedWeight, *biases: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """quantized::quantized_lstm_cell_dynamic(Tensor input, Tensor[] hx, LinearPackedParamsBase w_ih, LinearPackedParamsBase w_hh,
    Tensor bias_ih, Tensor bias_hh) -> (Tensor, Tensor)

    The packed parameters have the biases.
    """
    of_input, of_state = _gates(input, hx[0], w_ih, w_hh)
    enter, forget, new, out = (of_input + of_state).chunk(4, 1)
    cell = torch.sigmoid(forget) * hx[1] + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


@table("quantized::quantized_gru_cell_dynamic")
def _gru_cell(
    input: torch.Tensor, hx: torch.Tensor, w_ih: PackedWeight, w_hh: PackedWeight, *biases: torch.Tensor
) -> torch.Tensor:
    """quantized::quantized_gru_cell_dynamic(Tensor input, Tensor hx, LinearPackedParamsBase w_ih, LinearPackedParamsBase w_hh,
    Tensor b_ih, Tensor b_hh) -> Tensor"""
    of_input, of_state = _gates(input, hx, w_ih, w_hh)
    (reset, update, new), (reset_state, update_state, new_state) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    update = torch.sigmoid(update + update_state)
    candidate = torch.tanh(new + torch.sigmoid(reset + reset_state) * new_state)
    return candidate + update * (hx - candidate)


def _rnn_cell(activation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def cell(
        input: torch.Tensor, hx: torch.Tensor, w_ih: PackedWeight, w_hh: PackedWeight, *biases: torch.Tensor
    ) -> torch.Tensor:
        return activation(torch.add(*_gates(input, hx, w_ih, w_hh)))

    return cell


table("quantized::quantized_rnn_tanh_cell_dynamic")(_rnn_cell(torch.tanh))
table("quantized::quantized_rnn_relu_cell_dynamic")(_rnn_cell(torch.relu))
