"""Caches for the examples of exports: full in every layer, and of two kinds.

A layer with a sliding window becomes a full one. The mask applies the window, as it does in the first call of such a model; the
number of cached tokens is then the same in every layer, and no branch depends on whether a window is full.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionAndStaticFullAttentionLayer,
    LinearAttentionAndStaticSlidingWindowAttentionLayer,
    LinearAttentionLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from onnxexp import OptionError
from onnxexp_transformers.cache_nodes import cache_argument, named_tensors, register_caches


class PastCache(DynamicCache):
    """A cache that grows.

    It is a class of its own, so that no other registration of DynamicCache with pytree counts.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config=config)
        self.layers = [_full(layer) for layer in self.layers]


class FixedCache(StaticCache):
    """A cache of a fixed size that is written in place."""

    def __init__(self, config: Any, max_cache_len: int) -> None:
        super().__init__(config=config, max_cache_len=max_cache_len)
        self.layers = [_full(layer, max_cache_len) for layer in self.layers]


def _full(layer: Any, size: int = 0) -> Any:
    if type(layer) is DynamicSlidingWindowLayer:
        return DynamicLayer()  # type: ignore[no-untyped-call]
    if type(layer) is LinearAttentionAndSlidingWindowAttentionLayer:
        return LinearAttentionAndFullAttentionLayer(layer.number_of_states)
    if type(layer) is StaticSlidingWindowLayer:
        return StaticLayer(size)
    if type(layer) is LinearAttentionAndStaticSlidingWindowAttentionLayer:
        return LinearAttentionAndStaticFullAttentionLayer(size, layer.number_of_states)
    return layer


def example_cache(model: Any, kind: str, sizes: tuple[int, int], max_length: int | None) -> Any:
    """Fill a cache by running the model.

    Args:
        model: The model.
        kind: "past" or "static".
        sizes: The batch size and the number of tokens.
        max_length: The size of a static cache.

    Raises OptionError for another kind, and for a `max_length` that is missing or has no meaning.
    """
    if kind not in ("past", "static"):
        raise OptionError(f"cache is {kind!r}; there are: past, static")
    if (kind == "static") != (max_length is not None):
        raise OptionError("give max_length, the number of tokens that fit in, with cache='static', and none with cache='past'")
    register_caches()
    cache = PastCache(model.config) if max_length is None else FixedCache(model.config, max_length)
    if max_length is not None and any(isinstance(layer, LinearAttentionLayer) for layer in cache.layers):
        raise OptionError(f"{type(model).__name__} has layers without attention, whose state never grows: give cache='past'")
    tokens = torch.zeros(sizes, dtype=torch.int64, device=model.device)
    mask = torch.nn.functional.pad(torch.ones_like(tokens), (0, max(0, (max_length or 0) - sizes[1])))
    given = {"input_ids": tokens, "attention_mask": mask, "use_cache": True} | cache_argument(model.forward, cache)
    if "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = torch.arange(sizes[1], device=model.device).expand(sizes)
    with torch.no_grad():
        model(**given)
    if not named_tensors(cache):
        raise OptionError(
            f"{type(model).__name__} does not fill its cache; to fix this, set is_decoder=True in its config, if it is a decoder"
        )
    return cache


def cache_axes(cache: Any, *, growing: bool) -> dict[str, dict[int, str]]:
    """Return the dynamic axes of each tensor: its batch, and its tokens if it grows."""
    axes = {}
    for name, tensor in named_tensors(cache).items():
        attention = name.rpartition(".")[2] in ("key", "value")
        axes[name] = ({0: "batch"} if tensor.dim() else {}) | ({tensor.dim() - 2: "past"} if growing and attention else {})
    return axes


def recurrent_states(cache: Any) -> list[tuple[dict[int, Any], int, torch.Tensor]]:
    """List the states of the recurrent layers of a cache, with their places.

    These are the layers that have a recurrent state; the state of their convolution belongs to it.
    """
    layers = [layer for layer in cache.layers if isinstance(layer, LinearAttentionLayer)]
    return [
        (states, index, state)
        for layer in layers
        if any(layer.is_recurrent_states_initialized.values())
        for states in (layer.conv_states, layer.recurrent_states)
        for index, state in states.items()
        if state is not None
    ]


def keep_states(past: Any, present: Any, ignored: torch.Tensor) -> None:
    """Give recurrent layers their past states for the texts whose token is ignored.

    `ignored` is bool[batch].
    """
    for (_, _, old), (states, index, new) in zip(recurrent_states(past), recurrent_states(present), strict=True):
        states[index] = torch.where(ignored.reshape(-1, *[1] * (old.dim() - 1)), old, new)
