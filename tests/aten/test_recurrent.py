"""recurrent.py, packing.py and stepwise.py: recurrent layers in all their forms, against eager at sizes that were not seen."""

from __future__ import annotations

import collections
import functools
import itertools

import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import onnxexp
from onnxexp.testing import Case, cases, check_case

TIME, BATCH, ENTRY, HIDDEN = 5, 3, 6, 4
KINDS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN": nn.RNN,
    "relu": functools.partial(nn.RNN, nonlinearity="relu"),
    "projected": functools.partial(nn.LSTM, proj_size=3),
}
FLAGS = (False, True)


def layer(kind, layers=1, **options):
    torch.manual_seed(0)
    return KINDS[kind](ENTRY, HIDDEN, layers, **options).eval()


def entry(model, batch=BATCH):
    torch.manual_seed(1)
    return torch.randn(batch, TIME, ENTRY) if model.batch_first else torch.randn(TIME, batch, ENTRY)


def state(model, *batch):
    """A state to start from: one tensor, and LSTM's cell."""
    torch.manual_seed(2)
    count = model.num_layers * (2 if model.bidirectional else 1)
    widths = [model.proj_size or HIDDEN, *([HIDDEN] if model.mode == "LSTM" else [])]
    return tuple(torch.randn(count, *batch, width) for width in widths)


class FromState(nn.Module):
    """A layer that starts from a given state."""

    def __init__(self, model):
        super().__init__()
        self.layer = model

    def forward(self, x, h):
        return self.layer(x, h)


class FromBoth(FromState):
    def forward(self, x, h, c):
        return self.layer(x, (h, c))


def from_state(model):
    return FromBoth(model) if model.mode == "LSTM" else FromState(model)


def counts(program):
    return collections.Counter(node.op_type for node in program.model.graph)


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


@cases(*(form(kind, 2, True, True, True, opsets=(9, 11, 13, 14, 18, 22, 23)) for kind in KINDS))
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


@cases(
    *(Case(nn.LSTM(ENTRY, hidden, 2, proj_size=width, bidirectional=True), torch.randn(TIME, BATCH, ENTRY), opsets=(20,)) for hidden, width in (
        (2, 1), (4, 1), (4, 2), (5, 4), (8, 2), (8, 4), (12, 3), (16, 4), (3, 2))),
)  # fmt: skip
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


@cases(
    *(Case(layer(kind, 2, bidirectional=True).double(), torch.randn(TIME, BATCH, ENTRY).double(), dynamic={0: [0, 1]}, opsets=(9, 20), name=kind) for kind in KINDS),
    *(
        Case(layer(kind, bidirectional=True).to(dtype), torch.randn(TIME, BATCH, ENTRY, dtype=dtype), dynamic={0: [0, 1]}, opsets=opsets, rtol=0.02, atol=0.02)
        for kind in ("LSTM", "GRU", "RNN")
        for dtype, opsets in ((torch.float16, (9, 20)), (torch.bfloat16, (13, 20)))
    ),
)  # fmt: skip
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
    """The state that many models make themselves."""

    def __init__(self):
        super().__init__()
        self.layer = layer("LSTM", batch_first=True)

    def forward(self, x):
        zeros = torch.zeros(1, x.size(0), HIDDEN, device=x.device, dtype=x.dtype)
        return self.layer(x, (zeros, x.new_zeros(zeros.shape)))[0]


def test_zero_state_is_left_out():
    program = check_case(Case(ZeroState(), entry(layer("LSTM", batch_first=True)), dynamic={0: [0, 1]}), 20, dynamic=True)
    assert counts(program) == {"Transpose": 2, "LSTM": 1, "Squeeze": 1}


# weights that are not folded


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
    """With a probability of 1, dropout is not random: a layer after the first sees zeros."""
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


# cells


@cases(
    Case(nn.LSTMCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}),
    Case(nn.GRUCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}),
    Case(nn.RNNCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), dynamic={0: [0]}),
    Case(nn.RNNCell(ENTRY, HIDDEN, nonlinearity="relu"), torch.randn(BATCH, ENTRY), dynamic={0: [0]}),
    Case(nn.LSTMCell(ENTRY, HIDDEN, bias=False), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.GRUCell(ENTRY, HIDDEN, bias=False), torch.randn(BATCH, ENTRY), dynamic={0: [0]}, opsets=(9, 20)),
    Case(nn.LSTMCell(ENTRY, HIDDEN), torch.randn(ENTRY), opsets=(9, 20), name="LSTMCell without batch"),
    Case(
        nn.GRUCell(ENTRY, HIDDEN), torch.randn(BATCH, ENTRY), torch.randn(BATCH, HIDDEN), dynamic={0: [0], 1: [0]}, opsets=(20,)
    ),
    Case(
        nn.LSTMCell(ENTRY, HIDDEN).double(), torch.randn(BATCH, ENTRY).double(), dynamic={0: [0]}, opsets=(9, 20), name="double"
    ),
)
def test_cells(check):
    check()


def functional(x, w_ih, w_hh, b_ih, b_hh):
    zeros = x.new_zeros(1, x.shape[1], HIDDEN)
    return torch.gru(x, zeros, [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, False, False, False)


@cases(Case(functional, entry(layer("GRU")), *layer("GRU").parameters(), dynamic={0: [0, 1]}, opsets=(9, 20)))
def test_functional(check):
    """`torch.gru` itself; the weights are inputs."""
    check()


def test_what_capture_replaces_is_put_back():
    before = [torch.lstm, torch._VF.lstm, torch._VF._pack_padded_sequence, nn.RNNBase.check_forward_args]
    onnxexp.export(layer("LSTM"), (entry(layer("LSTM")),))
    with pytest.raises(onnxexp.CaptureError):
        onnxexp.export(layer("LSTM"), (torch.randn(TIME, BATCH, ENTRY + 1),))
    after = [torch.lstm, torch._VF.lstm, torch._VF._pack_padded_sequence, nn.RNNBase.check_forward_args]
    assert before == after


# packed sequences


class Packed(nn.Module):
    """A layer on packed sequences, which come back padded."""

    def __init__(self, model, ordered=False, padding=0.0, total=None):
        super().__init__()
        self.layer, self.ordered, self.padding, self.total = model, ordered, padding, total

    def run(self, x, lengths, *hx):
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=self.ordered)
        y, final = self.layer(packed, *hx)
        total = x.shape[1 if first else 0] if self.total == "whole" else self.total
        return pad_packed_sequence(y, batch_first=first, padding_value=self.padding, total_length=total), final

    def forward(self, x, lengths):
        return self.run(x, lengths)


class PackedFromState(Packed):
    def forward(self, x, lengths, h):
        return self.run(x, lengths, h)


class PackedFromBoth(Packed):
    def forward(self, x, lengths, h, c):
        return self.run(x, lengths, (h, c))


LENGTHS = torch.tensor([2, 5, 3])


def packed(kind, opsets=(11, 20), *, given=False, ordered=False, padding=0.0, total=None, dynamic=True, **options):
    model = layer(kind, 2, **options)
    states = state(model, BATCH) if given else ()
    wrapper = (Packed, PackedFromState, PackedFromBoth)[len(states)](model, ordered, padding, total)
    lengths = LENGTHS.sort(descending=True).values if ordered else LENGTHS
    axes = {0: [0, 1], 1: [0], **{position: [1] for position in range(2, 2 + len(states))}} if dynamic else {}
    return Case(wrapper, entry(model), lengths, *states, dynamic=axes, opsets=opsets, name=f"{kind} {options}")


@cases(
    *(packed(kind) for kind in KINDS),
    *(packed(kind, bidirectional=True, batch_first=True) for kind in KINDS),
    *(packed(kind, bidirectional=True, bias=False, dynamic=False, opsets=(9, 20)) for kind in KINDS),
)
def test_packed(check):
    check()


@cases(
    *(packed(kind, given=True) for kind in KINDS),
    *(packed(kind, given=True, bidirectional=True, batch_first=True, opsets=(20,)) for kind in KINDS),
)
def test_packed_from_state(check):
    check()


@cases(
    *(packed("GRU", padding=-1.5, total=total, batch_first=first) for total in (None, "whole") for first in FLAGS),
    *(packed("GRU", padding=7, total=total, dynamic=False, opsets=(9, 20)) for total in (TIME, TIME + 3)),
    packed("projected", padding=2.0, total="whole", bidirectional=True),
)
def test_padding(check):
    check()


@cases(*(packed(kind, ordered=True, dynamic=False, bidirectional=True, opsets=(9, 11, 20)) for kind in KINDS))
def test_packed_in_order(check):
    check()


@pytest.mark.parametrize("kind", KINDS)
def test_packed_in_order_at_other_sizes(kind):
    model = Packed(layer(kind, bidirectional=True, batch_first=True), ordered=True)
    lengths = {"x": {0: "batch", 1: "time"}, "lengths": {0: "batch"}}
    program = onnxexp.export(model, (torch.randn(3, 5, ENTRY), torch.tensor([5, 3, 2])), dynamic_shapes=lengths, opset_version=9)
    for sizes in ([5, 3, 2], [7], [4, 4, 4, 4], [6, 1], [3, 2, 2, 1, 1]):
        sample = torch.randn(len(sizes), 7, ENTRY), torch.tensor(sizes)
        with torch.no_grad():
            expected = model(*sample)
        torch.testing.assert_close(program(*sample), expected)


def test_packed_names_the_batch():
    model = Packed(layer("GRU"))
    shapes = {"x": {0: "time", 1: "batch"}, "lengths": {0: "batch"}}
    program = onnxexp.export(model, (entry(model.layer), LENGTHS), dynamic_shapes=shapes)
    output, lengths, final = program.model.graph.outputs
    assert list(map(str, final.shape)) == ["1", "batch", str(HIDDEN)]
    assert str(output.shape[1]) == str(lengths.shape[0]) == "batch"


def test_packed_graph_is_short():
    """No packed form is computed, and no steps are counted, where the layer's output is padded again."""
    model = Packed(layer("GRU"), ordered=True, total="whole")
    program = check_case(Case(model, entry(model.layer), torch.tensor([5, 3, 2])), 20)
    assert counts(program) == {"Cast": 1, "GRU": 1, "Squeeze": 1, "Unsqueeze": 2, "Less": 1, "Where": 1, "Identity": 1}


class Data(nn.Module):
    """The packed data itself, then something else packed in the same way."""

    def __init__(self, model):
        super().__init__()
        self.first, self.second = model, nn.GRU(HIDDEN, HIDDEN, bidirectional=True)

    def forward(self, x, lengths):
        y, _ = self.first(pack_padded_sequence(x, lengths, batch_first=self.first.batch_first, enforce_sorted=False))
        again = PackedSequence(y.data * 2, y.batch_sizes, y.sorted_indices, y.unsorted_indices)
        z, final = self.second(again)
        return y.data, y.batch_sizes, z.data, pad_packed_sequence(z), final


@cases(
    *(Case(Data(layer(kind)), entry(layer(kind)), LENGTHS, dynamic={0: [0, 1], 1: [0]}, opsets=(11, 20), name=kind) for kind in ("LSTM", "GRU", "relu")),
    Case(Data(layer("LSTM", batch_first=True)), entry(layer("LSTM", batch_first=True)), LENGTHS, opsets=(11, 23)),
)  # fmt: skip
def test_packed_data(check):
    check()


def test_changed_packed_data_needs_opset_11():
    with pytest.raises(onnxexp.OpsetError, match="CumSum") as caught:
        onnxexp.export(Data(layer("GRU")), (entry(layer("GRU")), LENGTHS), opset_version=9)
    assert caught.value.first_opset == 11


class Given(nn.Module):
    """A packed sequence that somebody else has packed."""

    def __init__(self):
        super().__init__()
        self.layer = layer("GRU", bidirectional=True)

    def forward(self, data, batch_sizes):
        y, final = self.layer(PackedSequence(data, batch_sizes))
        return pad_packed_sequence(y), final


def test_packed_elsewhere():
    model = Given()
    packed_entry = pack_padded_sequence(entry(model.layer), torch.tensor([5, 3, 2]))
    shapes = {"data": {0: "elements"}, "batch_sizes": {0: "steps"}}
    program = onnxexp.export(model, (packed_entry.data, packed_entry.batch_sizes), dynamic_shapes=shapes)
    for lengths in ([5, 3, 2], [4, 4], [3]):
        sample = pack_padded_sequence(torch.randn(TIME, len(lengths), ENTRY), torch.tensor(lengths))
        with torch.no_grad():
            expected = model(sample.data, sample.batch_sizes)
        torch.testing.assert_close(program(sample.data, sample.batch_sizes), expected)
