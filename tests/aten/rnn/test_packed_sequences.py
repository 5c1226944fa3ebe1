"""rnn/packed_sequences.py: recurrent layers on packed sequences, and padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import onnxexp
from onnxexp.testing import Case, cases, check_case

from .recurrent_layers import BATCH, ENTRY, FLAGS, HIDDEN, KINDS, TIME, counts, entry, layer, state

pytestmark = pytest.mark.usefixtures("without_onednn")


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
    """A layer's output that is padded again needs no packed form and no step counts."""
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


def data(kind, opsets=(11, 20), **options):
    model = layer(kind, **options)
    return Case(Data(model), entry(model), LENGTHS, dynamic={0: [0, 1], 1: [0]}, opsets=opsets, name=f"{kind} {options}")


@cases(data("LSTM"), data("GRU"), data("relu"), data("LSTM", (11, 23), batch_first=True))
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
