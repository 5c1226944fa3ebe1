"""Export RWKV with its cache, the parameter `state`.

No other architecture of transformers has such a parameter. It is a list of five tensors [batch, features, layers]. The first two
are the token before, for the feed-forward and for the attention; the others are the numerator, the denominator and the largest
exponent of the attention. Two things differ from transformers:

- For one token of several texts transformers broadcasts the token before, [batch, features], over the texts: its logits are
  [batch, batch, vocabulary], and its state is wrong. Here the token before is [batch, 1, features], and each text is computed as
  if it were alone.
- transformers starts with an exponent of -1e30. Here a cache of zeros is the start, as of other models: a denominator of 0 stands
  for that exponent.

The graph takes one token of each text, since transformers computes a longer text in a loop of Python. A token that the mask
leaves out does not change the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.tasks import Part

_NAMES = ("feed_forward_token", "attention_token", "numerator", "denominator", "exponent")
_START = -1e30  # transformers' exponent before the first token


def rwkv_part(model: Any, batch: int, past: int, *, static: bool) -> Part:
    """Return the model as a part.

    Args:
        model: The model.
        batch, past: The sizes of its example: texts, and tokens that they have so far.
        static: Whether a static cache is requested. Raises OptionError: the state never grows.
    """
    if static:
        raise OptionError(f"{type(model).__name__} has a state that never grows: give cache='past', and no max_length")
    ids = torch.arange(batch * (past + 1), device=model.device).reshape(batch, past + 1) * 7 % model.config.vocab_size
    with torch.no_grad():
        states = dict(zip(_NAMES, model(input_ids=ids[:, :past], use_cache=True).state, strict=True))
    mask = torch.ones(batch, 1, dtype=torch.int64)
    mask[0] = 0
    inputs = {"input_ids": ids[:, past:], "attention_mask": mask, "past_states": states}
    axes = {name: {0: "batch"} for name in ("input_ids", "attention_mask")}

    def forward(
        *, input_ids: torch.Tensor, attention_mask: torch.Tensor, past_states: Mapping[str, torch.Tensor]
    ) -> dict[str, Any]:
        result = model(input_ids=input_ids, state=_model_state(past_states), use_cache=True, return_dict=True)
        ignored = attention_mask[:, :, None] == 0
        new = (state.values if isinstance(state, _TokenBefore) else state for state in result.state)
        kept = {name: past_states[name].where(ignored, state) for name, state in zip(_NAMES, new, strict=True)}
        return {"logits": result.logits, "past_states": kept}

    shapes = {**axes, "past_states": {name: {0: "batch"} for name in _NAMES}}
    return Part("model", AdaptedModule(model, forward, list(inputs)), inputs, shapes)


class _TokenBefore:
    """A state [batch, features, layers] whose layers are read as [batch, 1, features]."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def __getitem__(self, place: Any) -> torch.Tensor:
        return self.values[place].unsqueeze(1)

    def __setitem__(self, place: Any, value: torch.Tensor) -> None:
        self.values[place] = value


def _model_state(states: Mapping[str, torch.Tensor]) -> list[Any]:
    """Return a state that the model may write into."""
    feed_forward, attention, numerator, denominator, exponent = (states[name].clone() for name in _NAMES)
    start = torch.full_like(exponent, _START)
    return [
        _TokenBefore(feed_forward), _TokenBefore(attention), numerator, denominator, start.where(denominator == 0, exponent),
    ]  # fmt: skip
