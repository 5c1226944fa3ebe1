"""The numbers of sequences in packed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.graph import Value

_PAD = "aten::_pad_packed_sequence"
_LAYERS = frozenset(f"aten::{layer}.data" for layer in ("lstm", "gru", "rnn_tanh", "rnn_relu"))


class PackedBatches:
    """The batch of each packed sequence, by the value that has its batch sizes."""

    def __init__(self) -> None:
        self._known: dict[Value, Any] = {}

    def note(self, batch_sizes: Value, batch: Any) -> None:
        """Record the batch of a packed sequence."""
        self._known[batch_sizes] = batch

    def of(self, batch_sizes: Any) -> Any:
        """Return the batch of a packed sequence, or None if unknown."""
        return self._known.get(batch_sizes)

    def arguments(self, name: str, fakes: list[Any], args: Sequence[Any], other: Any) -> list[Any]:
        """Return the arguments of an operator that computes shapes only.

        Padding gets the batch as its last argument, or the result of `other` where the batch is unknown. The states of a layer
        have that batch.
        """
        if name == _PAD:
            batch = self.of(args[1])
            return [*fakes, other() if batch is None else batch]
        if name in _LAYERS and args[1] in self._known:
            state = fakes[2][0] if isinstance(fakes[2], list) else fakes[2]
            torch._check(state.shape[1] == self._known[args[1]])  # type: ignore[no-untyped-call]
        return fakes
