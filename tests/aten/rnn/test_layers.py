"""rnn/layers.py: recurrent layers at sizes that the export did not see."""

from __future__ import annotations

import itertools

import onnx
import onnx_ir
import pytest
import torch
from torch import nn

import onnxexp
from onnxexp.testing import Case, cases, check_case

from .recurrent_layers import BATCH, ENTRY, FLAGS, HIDDEN, KINDS, TIME, counts, entry, from_state, layer, state

pytestmark = pytest.mark.usefixtures("without_onednn")


def form(kind, layers, both_ways, batch_first, bias, opsets=(20,)):
    words = ("2 layers" * (layers == 2), "bidirectional" * both_ways, "batch first" * batch_first, "without bias" * (not bias))
    model = layer(kind, layers, bidirectional=both_ways, batch_first=batch_first, bias=bias)
    return Case(model, entry(model), dynamic={0: [0, 1]}, opsets=opsets, name=" ".join(filter(None, (kind, *words))))


@cases(*(form(kind, 1 + both, both, first, both != first) for kind in KINDS for both, first in itertools.product(FLAGS, FLAGS)))
def test_forms(check):
    check()


@pytest.mark.full
@cases(*(form(*arguments, opsets=(9, 20)) for arguments in itertools.product(KINDS, (1, 2, 3), FLAGS, FLAGS, FLAGS)))
def test_all_forms(check):
    check()


@cases(*(form(kind, 2, True, True, True, opsets=(9, 14, 22)) for kind in KINDS))
def test_opsets(check):
    check()


def started(kind, opsets=(20,), **options):
    model = layer(kind, 2, **options)
    given = state(model, BATCH)
    batch = {0: [0, 1], **{position: [1] for position in range(1, 1 + len(given))}}
    return Case(from_state(model), entry(model), *given, dynamic=batch, opsets=opsets, name=f"{kind} {options}")


@cases(
    *(started(kind, bidirectional=True, batch_first=True, opsets=(9, 20)) for kind in KINDS),
    *(started(kind) for kind in KINDS),
    started("LSTM", bias=False),
)
def test_state_given(check):
    check()


@cases(
    *(Case(layer(kind), torch.randn(TIME, ENTRY), dynamic={0: [0]}, opsets=(9, 20), name=kind) for kind in KINDS),
    *(
        Case(layer(kind, 2, bidirectional=True, batch_first=True), torch.randn(TIME, ENTRY), dynamic={0: [0]}, opsets=(20,))
        for kind in KINDS
    ),
    *(
        Case(
            from_state(layer(kind)),
            torch.randn(TIME, ENTRY),
            *state(layer(kind)),
            dynamic={0: [0]},
            opsets=(20,),
            name=f"{kind} from state",
        )
        for kind in KINDS
    ),
)
def test_without_batch(check):
    check()


WIDTHS = ((2, 1), (4, 1), (4, 2), (5, 4), (8, 2), (8, 4), (12, 3), (16, 4), (3, 2))
"""Of the hidden and the projected state: one may be a multiple of the other, or of the number of gates."""


def narrow(hidden, width):
    model = nn.LSTM(ENTRY, hidden, 2, proj_size=width, bidirectional=True)
    return Case(model, torch.randn(TIME, BATCH, ENTRY), opsets=(20,), name=f"{hidden} to {width}")


@cases(*(narrow(*widths) for widths in WIDTHS))
def test_widths_of_projections(check):
    check()


@cases(
    Case(layer("LSTM"), torch.randn(1, BATCH, ENTRY), dynamic={0: [1]}, opsets=(20,), name="one step"),
    Case(layer("LSTM", batch_first=True), torch.randn(1, TIME, ENTRY), dynamic={0: [1]}, opsets=(20,), name="one sequence"),
    Case(layer("GRU", 2, bidirectional=True, batch_first=True), torch.randn(1, 1, ENTRY), opsets=(9, 20), name="one step of one"),
)
def test_sizes_of_one(check):
    check()


# dtypes


def typed(kind, dtype, opsets, tolerance=None):
    model = layer(kind, 2, bidirectional=True).to(dtype)
    x = torch.randn(TIME, BATCH, ENTRY, dtype=dtype)
    return Case(model, x, dynamic={0: [0, 1]}, opsets=opsets, rtol=tolerance, atol=tolerance, name=f"{kind} {dtype}")


@cases(
    *(typed(kind, torch.float64, (9, 20)) for kind in KINDS),
    *(typed(kind, torch.float16, (9, 20), 0.02) for kind in ("LSTM", "GRU", "RNN")),
    *(typed(kind, torch.bfloat16, (13, 20), 0.02) for kind in ("LSTM", "GRU", "RNN")),
)
def test_dtypes(check):
    check()


# graphs


@cases(
    Case(layer("LSTM"), entry(layer("LSTM")), dynamic={0: [0, 1]}, emits={"LSTM", "Squeeze"}),
    Case(layer("GRU"), entry(layer("GRU")), dynamic={0: [0, 1]}, emits={"GRU", "Squeeze"}),
    Case(layer("RNN"), entry(layer("RNN")), dynamic={0: [0, 1]}, emits={"RNN", "Squeeze"}),
    Case(layer("GRU", 2), entry(layer("GRU")), dynamic={0: [0, 1]}, emits={"GRU", "Squeeze", "Concat"}),
    Case(layer("LSTM", bidirectional=True), entry(layer("LSTM")), dynamic={0: [0, 1]}, emits={"LSTM", "Transpose", "Reshape"}),
    Case(from_state(layer("GRU")), entry(layer("GRU")), *state(layer("GRU"), BATCH), dynamic={0: [0]}, emits={"GRU", "Squeeze"}),
)
def test_few_nodes(check):
    check()


@pytest.mark.parametrize(
    ("both_ways", "expected"), [(False, {"Transpose": 2, "Squeeze": 3}), (True, {"Transpose": 4, "Reshape": 3})]
)
def test_batch_first_swaps_once_in_and_once_out(both_ways, expected):
    model = layer("GRU", 3, batch_first=True, bidirectional=both_ways)
    program = check_case(Case(model, entry(model), dynamic={0: [0, 1]}), 20, dynamic=True)
    assert counts(program) == {"GRU": 3, "Concat": 1, **expected}


def test_without_a_batch_nothing_is_moved():
    program = check_case(Case(layer("LSTM", batch_first=True), torch.randn(TIME, ENTRY), dynamic={0: [0]}), 20, dynamic=True)
    assert counts(program) == {"Unsqueeze": 1, "LSTM": 1, "Squeeze": 3}


def test_state_is_split_once():
    model = layer("LSTM", 4)
    program = check_case(Case(from_state(model), entry(model), *state(model, BATCH)), 20)
    assert counts(program) == {"Split": 2, "LSTM": 4, "Squeeze": 4, "Concat": 2}


class ZeroState(nn.Module):
    """A layer with a zero state that the model makes, as many models do."""

    def __init__(self):
        super().__init__()
        self.layer = layer("LSTM", batch_first=True)

    def forward(self, x):
        zeros = torch.zeros(1, x.size(0), HIDDEN, device=x.device, dtype=x.dtype)
        return self.layer(x, (zeros, x.new_zeros(zeros.shape)))[0]


def test_zero_state_is_left_out():
    program = check_case(Case(ZeroState(), entry(layer("LSTM", batch_first=True)), dynamic={0: [0, 1]}), 20, dynamic=True)
    assert counts(program) == {"Transpose": 2, "LSTM": 1, "Squeeze": 1}


# weights


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_rearranged_weights_are_made_when_they_are_written(kind):
    """No second copy of the weights exists before they are written."""
    program = onnxexp.export(layer(kind, 2), (entry(layer(kind)),))
    weights = [value.const_value for value in program.model.graph.initializers.values() if "weight" in value.name]
    assert len(weights) == 4
    assert all(isinstance(weight, onnx_ir.LazyTensor) for weight in weights)


def test_weights_as_they_are_stay_views():
    model = layer("RNN")
    program = onnxexp.export(model, (entry(model),))
    weight = program.model.graph.initializers["weight_ih_l0"].const_value
    assert weight.raw.data_ptr() == model.weight_ih_l0.data_ptr()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [9, 20])
def test_weights_as_inputs(kind, opset):
    model = layer(kind, 2, bidirectional=True)
    program = onnxexp.export(model, (entry(model),), opset_version=opset, export_params=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert not [name for name in program.model.graph.initializers if "weight" in name]
    program.verify()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [9, 20])
def test_without_folding(kind, opset):
    model = layer(kind, 2, bidirectional=True)
    program = onnxexp.export(model, (entry(model),), opset_version=opset, do_constant_folding=False)
    assert set(dict(model.named_parameters())) <= {value.name for value in program.model.graph.initializers.values()}
    program.verify()


# dropout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [9, 20])
def test_dropout_between_layers(kind, opset):
    """Dropout with probability 1 is not random: later layers see zeros."""
    model = layer(kind, 3, dropout=1.0).train()
    x = entry(model)
    program = onnxexp.export(
        model, (x,), opset_version=opset, training="training", dynamic_shapes={"input": {0: "time", 1: "batch"}}
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    for sample in (x, torch.randn(TIME + 2, BATCH + 1, ENTRY)):
        torch.testing.assert_close(program(sample), model(sample))


@pytest.mark.parametrize(("training", "expected"), [("training", 2), ("eval", 0), ("preserve", 2)])
def test_dropout_by_mode(training, expected):
    model = layer("GRU", 3, dropout=0.5).train()
    program = onnxexp.export(model, (entry(model),), training=training)
    assert counts(program)["Dropout"] == expected
    assert model.training


def functional(x, w_ih, w_hh, b_ih, b_hh):
    zeros = x.new_zeros(1, x.shape[1], HIDDEN)
    return torch.gru(x, zeros, [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, False, False, False)


@cases(Case(functional, entry(layer("GRU")), *layer("GRU").parameters(), dynamic={0: [0, 1]}, opsets=(9, 20)))
def test_functional(check):
    """`torch.gru` is called directly, with the weights as inputs."""
    check()


def test_what_capture_replaces_is_put_back():
    before = [torch.lstm, torch._VF.lstm, torch._VF._pack_padded_sequence, nn.RNNBase.check_forward_args]
    onnxexp.export(layer("LSTM"), (entry(layer("LSTM")),))
    with pytest.raises(onnxexp.CaptureError):
        onnxexp.export(layer("LSTM"), (torch.randn(TIME, BATCH, ENTRY + 1),))
    after = [torch.lstm, torch._VF.lstm, torch._VF._pack_padded_sequence, nn.RNNBase.check_forward_args]
    assert before == after
