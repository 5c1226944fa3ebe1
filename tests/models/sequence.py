"""The word language model in its five kinds, and deep recurrent stacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .case import CLASSIC_OPSETS, Inputs, ModelCase, Sizes, floats, registry, seeded, tokens

WORDS, LAYERS, HIDDEN = 53, 2, 16
Hidden = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class WordModel(nn.Module):
    """A model from words (time, batch) and a state to log probabilities and a state.

    The embedding is also the decoder's weight.
    """

    def __init__(self, kind: str, words: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.encoder = nn.Embedding(words, hidden)
        if kind in ("LSTM", "GRU"):
            self.rnn: nn.RNNBase = getattr(nn, kind)(hidden, hidden, layers, dropout=0.5)
        else:
            self.rnn = nn.RNN(hidden, hidden, layers, nonlinearity=kind.removeprefix("RNN_").lower(), dropout=0.5)
        self.decoder = nn.Linear(hidden, words)
        self.decoder.weight = self.encoder.weight
        self.words = words

    def forward(self, ids: torch.Tensor, hidden: Hidden) -> tuple[torch.Tensor, Hidden]:
        """Return the log probabilities of each next word, and the state."""
        output, hidden = self.rnn(self.dropout(self.encoder(ids)), hidden)
        decoded = self.decoder(self.dropout(output)).view(-1, self.words)
        return functional.log_softmax(decoded, dim=1), hidden


class Positions(nn.Module):
    """Adds sines and cosines of the position to (time, batch, hidden)."""

    table: torch.Tensor

    def __init__(self, hidden: int, longest: int = 100) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.2)
        place = torch.arange(longest, dtype=torch.float).unsqueeze(1)
        rate = torch.exp(torch.arange(0, hidden, 2).float() * (-math.log(10000.0) / hidden))
        table = torch.zeros(longest, hidden)
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)
        self.register_buffer("table", table.unsqueeze(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the positions to x, and apply dropout."""
        return self.dropout(x + self.table[: x.size(0), :])


class TransformerWordModel(nn.Module):
    """A causal nn.TransformerEncoder for the same task: (time, batch, words) results.

    ``len(ids)`` must be an int, so that only a capture that reads the code (strict=True) keeps the time dynamic. The encoder
    compares the mask with a causal one unless `is_causal` is True: with ``told`` false, the capture finds a branch on values.
    """

    def __init__(self, words: int, hidden: int, heads: int, layers: int, told: bool) -> None:
        super().__init__()
        self.is_causal = True if told else None
        self.positions = Positions(hidden)
        self.embedding = nn.Embedding(words, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, 2 * hidden)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(hidden, words)
        self.hidden = hidden

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the log probabilities of each next word."""
        mask = torch.log(torch.tril(torch.ones(len(ids), len(ids))))
        x = self.positions(self.embedding(ids) * math.sqrt(self.hidden))
        return functional.log_softmax(self.decoder(self.encoder(x, mask=mask, is_causal=self.is_causal)), dim=-1)


SIZES = {"time": 7, "batch": 3}
OTHER_SIZES = ({"time": 11, "batch": 2}, {"time": 4, "batch": 1})
TIME_AND_BATCH = {0: "time", 1: "batch"}


def words_and_state(kind: str) -> Callable[[Sizes], Inputs]:
    """Build inputs of `WordModel`."""

    def inputs(sizes: Sizes) -> Inputs:
        ids = tokens(WORDS, sizes["time"], sizes["batch"])
        hidden, cell = (floats(LAYERS, sizes["batch"], HIDDEN, seed=seed) for seed in (3, 4))
        return (ids, (hidden, cell) if kind == "LSTM" else hidden), {}

    return inputs


def word_case(kind: str, quick_opset: int) -> ModelCase:
    """Build a case of a recurrent word model of that kind."""
    state: Any = ({1: "batch"}, {1: "batch"}) if kind == "LSTM" else {1: "batch"}
    shapes = {"ids": TIME_AND_BATCH, "hidden": state}
    build = seeded(lambda: WordModel(kind, WORDS, HIDDEN, LAYERS))
    name = "word-" + kind.lower().replace("_", "-")
    return ModelCase(name, build, words_and_state(kind), SIZES, OTHER_SIZES, shapes, CLASSIC_OPSETS, quick_opset)


def words_only(sizes: Sizes) -> Inputs:
    """Build inputs of `TransformerWordModel`."""
    return (tokens(WORDS, sizes["time"], sizes["batch"]),), {}


def transformer_case(name: str, told: bool, quick_opset: int) -> ModelCase:
    """Build a case of `TransformerWordModel`."""
    build = seeded(lambda: TransformerWordModel(WORDS, HIDDEN, 2, LAYERS, told))
    return ModelCase(name, build, words_only, SIZES, OTHER_SIZES, {"ids": TIME_AND_BATCH}, CLASSIC_OPSETS, quick_opset)


def frames(sizes: Sizes) -> Inputs:
    """Build inputs of a recurrent stack: (time, batch, 10)."""
    return (floats(sizes["time"], sizes["batch"], 10),), {}


CASES: dict[str, ModelCase] = registry(
    [
        *(word_case(kind, opset) for kind, opset in (("RNN_TANH", 9), ("RNN_RELU", 13), ("LSTM", 15), ("GRU", 21))),
        transformer_case("word-transformer", told=True, quick_opset=17),
        transformer_case("word-transformer-mask", told=False, quick_opset=20),
        ModelCase(
            "bilstm-4", seeded(lambda: nn.LSTM(10, 12, 4, bidirectional=True)), frames, SIZES, OTHER_SIZES,
            {"input": TIME_AND_BATCH}, CLASSIC_OPSETS, 11,
        ),
    ]
)  # fmt: skip
