"""Text generation: a causal language model with its cache.

The graph takes ``input_ids``, ``attention_mask`` over all tokens so far, ``position_ids`` where the model has them, and the
cache, ``past_key_values.0.key`` and so on. It returns ``logits`` and the cache after these tokens, ``present.0.key``. The first
call, the prefill, has a cache of length 0.

Models with recurrent layers (Mamba and its relatives) take one token at a time, for the prompt too: with more tokens,
transformers starts from an empty state. A token that the mask leaves out does not change the state of these layers.

RWKV's cache is the parameter `state`, a list of five tensors [batch, features, layers]. No other model has it. The first two
are the token before, for the feed-forward and for the attention; the others are the numerator, the denominator and the largest
exponent of the attention. Two things differ from transformers:

- For one token of several texts transformers broadcasts the token before, [batch, features], over the texts: its logits are
  [batch, batch, vocabulary], and its state is wrong. Here the token before is [batch, 1, features], and each text is computed as
  if it were alone.
- transformers starts with an exponent of -1e30. Here a cache of zeros is the start, as of other models: a denominator of 0 stands
  for that exponent.

Its graph takes one token of each text, since transformers computes a longer text in a loop of Python. A token that the mask
leaves out does not change the state.

RecurrentGemma has its states in attributes of modules. They become inputs and outputs of an export.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.cache_nodes import cache_argument, cache_parameter, named_tensors
from onnxexp_transformers.example_caches import cache_axes, example_cache, keep_states, recurrent_states
from onnxexp_transformers.tasks import Part


def parts(
    model: Any, *, cache: str = "past", max_length: int | None = None, batch: int = 2, past: int = 3, sequence: int = 4
) -> Sequence[Part]:
    """Return the decoder with its cache as the only part, "model".

    Args:
        model: A model of transformers with a language modelling head.
        cache: "past" for a cache that grows, "static" for one of `max_length` tokens that is written in place.
        max_length: The size of a static cache.
        batch, past, sequence: The sizes of the example: texts, cached tokens and new ones. They differ, so that none is fixed to
            another.

    Raises OptionError for a model that has no cache, and for options that do not fit.
    """
    accepted = inspect.signature(model.forward).parameters
    has_cache = cache_parameter(model.forward) is not None
    if not has_cache and "state" in accepted:
        return [rwkv_part(model, batch, past, static=cache != "past" or max_length is not None)]
    if not has_cache or "input_ids" not in accepted:
        raise OptionError(
            f"{type(model).__name__} does not fit the task text-generation: its forward has no parameter "
            f"{'input_ids' if has_cache else 'for a cache'}; to fix this, choose another task"
        )
    _check_causal(model)
    with assigned_states(model) as states:
        filled = example_cache(model, cache, (batch, past), max_length)
    recurrent = bool(recurrent_states(filled) or states)
    attends = any(leaf.endswith("key") for leaf in named_tensors(filled))
    inputs, shapes = _tokens(model, (batch, past, 1 if recurrent else sequence), max_length)
    if not attends:
        inputs["attention_mask"], shapes["attention_mask"] = inputs["attention_mask"][:, -1:], {0: "batch"}
    if "position_ids" not in accepted:
        del inputs["position_ids"], shapes["position_ids"]
    inputs["past_key_values"] = filled
    shapes |= {f"past_key_values.{leaf}": axes for leaf, axes in cache_axes(filled, growing=cache == "past").items()}
    if states:
        inputs["past_states"] = states
        shapes["past_states"] = {state: {0: "batch"} for state in states}

    def forward(
        *, past_key_values: Any, attention_mask: torch.Tensor, past_states: Any = states, **tokens: Any
    ) -> dict[str, Any]:
        present = pytree.tree_map_only(torch.Tensor, torch.clone, past_key_values)  # models write into their cache
        given = {**tokens, "attention_mask": attention_mask if attends else None} | cache_argument(model.forward, present)
        with with_states(model, past_states) as new_states:
            result = model.forward(**given, use_cache=True, return_dict=True)
        keep_states(past_key_values, present, attention_mask[:, -1] == 0)
        return {"logits": result.logits, "past_key_values": present} | ({"past_states": new_states} if new_states else {})

    return [Part("model", AdaptedModule(model, forward, list(inputs)), inputs, shapes)]


def _check_causal(model: Any) -> None:
    """Raise OptionError for an encoder, whose logits depend on later tokens.

    Only models with `is_decoder=False` in their configuration are tried; most decoders have no such setting.
    """
    if getattr(model.config, "is_decoder", True) or model.training or model.device.type == "meta":
        return
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[1, 2, 3], [1, 2, 4]], device=model.device), use_cache=False).logits
    if not torch.allclose(logits[0, :2], logits[1, :2], rtol=1e-3, atol=1e-5):
        raise OptionError(
            f"{type(model).__name__} is no decoder, it reads later tokens too; to fix this, set is_decoder=True in its config"
        )


def _tokens(model: Any, sizes: tuple[int, int, int], max_length: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the example's tokens and their dynamic axes.

    The first text is padded.
    """
    batch, past, sequence = sizes
    ids = torch.arange(batch * sequence).reshape(batch, sequence) * 7 % model.config.get_text_config().vocab_size
    mask = torch.ones(batch, past + sequence, dtype=torch.int64)
    mask[0, 0] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, past:]
    tokens = {0: "batch", 1: "sequence"} if sequence > 1 else {0: "batch"}
    shapes: dict[str, Any] = {"input_ids": tokens, "attention_mask": {0: "batch"}, "position_ids": tokens}
    if max_length is None:
        shapes["attention_mask"] = {0: "batch", 1: "past + sequence" if sequence > 1 else "past + 1"}
    else:
        mask = torch.nn.functional.pad(mask, (0, max_length - mask.shape[1]))
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions}, shapes


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


@contextlib.contextmanager
def assigned_states(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Collect the tensors that a run assigns to attributes, and undo the assignments.

    The yielded dict is filled at the end. Its keys are ``module.path.attribute``.
    """
    before = _attributes(model)
    found: dict[str, torch.Tensor] = {}
    try:
        yield found
    finally:
        after = _attributes(model)
        changed = {name: value for name, value in after.items() if value is not before.get(name)}
        found.update({name: value for name, value in changed.items() if isinstance(value, torch.Tensor)})
        for name in changed:
            _assign(model, name, before.get(name))


@contextlib.contextmanager
def with_states(model: torch.nn.Module, states: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Assign states to a model's attributes inside the `with`.

    The yielded dict contains the states after the run.
    """
    before = _attributes(model)
    results: dict[str, torch.Tensor] = {}
    for name, state in states.items():
        _assign(model, name, state)
    try:
        yield results
    finally:
        after = _attributes(model)
        for name in states:
            value = after[name]
            if isinstance(value, torch.Tensor):
                results[name] = value
            _assign(model, name, before[name])


def _attributes(model: torch.nn.Module) -> dict[str, object]:
    """Return the modules' plain attributes that are tensors or None, by name."""
    return {
        f"{path}.{name}" if path else name: value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if value is None or (type(value) is not torch.nn.Parameter and isinstance(value, torch.Tensor))
    }


def _assign(model: torch.nn.Module, name: str, value: object) -> None:
    path, _, attribute = name.rpartition(".")
    vars(model.get_submodule(path))[attribute] = value
