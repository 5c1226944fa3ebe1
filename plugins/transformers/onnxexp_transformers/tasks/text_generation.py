"""Text generation: a causal language model with its cache.

The graph takes ``input_ids``, ``attention_mask`` over all tokens so far, ``position_ids`` where the model has them, and the
cache, ``past_key_values.0.key`` and so on. It returns ``logits`` and the cache after these tokens, ``present.0.key``. The first
call, the prefill, has a cache of length 0.

Models with recurrent layers (Mamba and its relatives) take one token at a time, for the prompt too: with more tokens,
transformers starts from an empty state. A token that the mask leaves out does not change the state of these layers.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.cache_names import cache_argument, cache_parameter
from onnxexp_transformers.cache_nodes import named_tensors
from onnxexp_transformers.example_caches import cache_axes, example_cache, keep_states, recurrent_states
from onnxexp_transformers.module_states import assigned_states, with_states
from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.rwkv_state import rwkv_part


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
