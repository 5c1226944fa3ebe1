"""Text generation: a causal language model with its cache.

The graph takes ``input_ids``, ``attention_mask`` over all tokens so far, ``position_ids`` where the model has them, and the
cache, ``past_key_values.0.key`` and so on. It returns ``logits`` and the cache after these tokens, ``present.0.key``. The first
call, the prefill, has a cache of length 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.example_caches import cache_axes, example_cache
from onnxexp_transformers.tasks import Part

__all__ = ["AUTO_CLASS", "parts"]

AUTO_CLASS = "AutoModelForCausalLM"
_BATCH, _PAST, _SEQUENCE = 2, 3, 4  # sizes of the example, all different
_CACHE_PARAMETERS = ("past_key_values", "cache_params")


def parts(model: Any, *, cache: str = "past", max_length: int | None = None) -> Sequence[Part]:
    """Return the decoder with its cache as the only part, "model".

    Args:
        model: A model of transformers with a language modelling head.
        cache: "past" for a cache that grows, "static" for one of `max_length` tokens that is written in place.
        max_length: The size of a static cache.

    Raises OptionError for a model that has no cache, and for options that do not fit.
    """
    accepted = inspect.signature(model.forward).parameters
    name = next((each for each in _CACHE_PARAMETERS if each in accepted), None)
    if name is None or "input_ids" not in accepted:
        raise OptionError(
            f"{type(model).__name__} does not fit the task text-generation: its forward has no parameter "
            f"{' or '.join(_CACHE_PARAMETERS) if name is None else 'input_ids'}"
        )
    inputs, shapes = _example_tokens(model, max_length, positions="position_ids" in accepted)
    filled = example_cache(model, name, cache, (_BATCH, _PAST), max_length)
    inputs["past_key_values"] = filled
    shapes |= {f"past_key_values.{leaf}": axes for leaf, axes in cache_axes(filled, growing=cache == "past").items()}

    def forward(*, past_key_values: Any, **tokens: Any) -> dict[str, Any]:
        result = model.forward(**tokens, **{name: past_key_values}, use_cache=True, return_dict=True)
        return {"logits": result.logits, "past_key_values": past_key_values}

    return [Part("model", AdaptedModule(model, forward, list(inputs)), inputs, shapes)]


def _example_tokens(model: Any, max_length: int | None, *, positions: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the example's tokens and their dynamic axes; the first text is padded."""
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.arange(_BATCH * _SEQUENCE).reshape(_BATCH, _SEQUENCE) * 7 % vocabulary
    mask = torch.ones(_BATCH, _PAST + _SEQUENCE, dtype=torch.int64)
    mask[0, 0] = 0
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    shapes: dict[str, Any] = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "past + sequence"}}
    if max_length is not None:
        inputs["attention_mask"] = torch.nn.functional.pad(mask, (0, max_length - mask.shape[1]))
        shapes["attention_mask"] = {0: "batch"}
    if positions:
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, _PAST:]
        shapes["position_ids"] = shapes["input_ids"]
    return inputs, shapes
