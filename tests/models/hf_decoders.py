"""`transformers` models that predict the next token, with and without a cache.

Models with a cache are wrapped: they take and return plain tensors in nested tuples, as a runtime stores them. One case passes a
DynamicCache itself, a container that is registered with pytree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn

from onnxexp_transformers.cache_nodes import cache_parameter, register_caches

from .case import Inputs, ModelCase, Sizes, floats, padding_mask, tokens
from .hf_base import (
    BATCH_AND_SEQUENCE,
    BATCH_SIZES,
    DECODER,
    HEADS,
    HIDDEN,
    LAYERS,
    OTHER_BATCH_SIZES,
    SPREAD,
    VOCABULARY,
    hf_case,
    text,
    text_case,
)
from .scan_mixer import with_scan


def gpt2_config() -> Any:
    """Configure a GPT-2 of two layers."""
    sizes = {
        "vocab_size": VOCABULARY,
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_positions": 64,
        "initializer_range": SPREAD,
    }
    return hf.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2, use_cache=False)


def llama_config() -> Any:
    """Configure a Llama of two layers with grouped queries."""
    return hf.LlamaConfig(**DECODER)


Past = tuple[tuple[torch.Tensor, torch.Tensor], ...]


class WithPast(nn.Module):
    """A causal language model with one (key, value) per layer as its plain cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.cache = str(cache_parameter(model.forward))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        past: Past,
    ) -> tuple[torch.Tensor, Past]:
        """Return the logits of the new tokens, and the cache with these tokens."""
        cache = hf.DynamicCache(past)
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, **{self.cache: cache}, use_cache=True)
        return result.logits, tuple((layer.keys, layer.values) for layer in cache.layers)


CACHE = str(cache_parameter(hf.LlamaForCausalLM.forward))


def past_values(sizes: Sizes, heads: int) -> Past:
    """Draw a cache of keys and values for ``heads`` heads of the common head size."""
    shape = (sizes["batch"], heads, sizes["past"], HIDDEN // HEADS)
    return tuple((floats(*shape, seed=10 + layer), floats(*shape, seed=20 + layer)) for layer in range(LAYERS))


def text_and_past(heads: int) -> Callable[[Sizes], Inputs]:
    """Build inputs of `WithPast`: new tokens, a mask (padding on the left), the cache."""

    def inputs(sizes: Sizes) -> Inputs:
        ids = tokens(VOCABULARY, sizes["batch"], sizes["sequence"])
        mask = padding_mask(sizes["batch"], sizes["past"] + sizes["sequence"], left=True)
        return (ids, mask, past_values(sizes, heads)), {}

    return inputs


PAST_SIZES = {"batch": 2, "sequence": 3, "past": 5}
OTHER_PAST_SIZES = ({"batch": 3, "sequence": 4, "past": 9}, {"batch": 1, "sequence": 1, "past": 6})
PAST_LEAF = {0: "batch", 2: "past"}
PAST_SHAPES = {
    "input_ids": BATCH_AND_SEQUENCE,
    "attention_mask": {0: "batch", 1: "past + sequence"},
    "past": ((PAST_LEAF, PAST_LEAF),) * LAYERS,
}


def text_and_cache(sizes: Sizes) -> Inputs:
    """Build keyword inputs with a DynamicCache of each layer's keys and values."""
    register_caches()
    ids = tokens(VOCABULARY, sizes["batch"], sizes["sequence"])
    mask = padding_mask(sizes["batch"], sizes["past"] + sizes["sequence"], left=True)
    cache = hf.DynamicCache(past_values(sizes, 2))
    return (), {"input_ids": ids, "attention_mask": mask, CACHE: cache, "use_cache": True}


CACHE_SHAPES = {
    "input_ids": BATCH_AND_SEQUENCE,
    "attention_mask": {0: "batch", 1: "past + sequence"},
    CACHE: [PAST_LEAF] * (2 * LAYERS),
    "use_cache": None,
}


def mamba_config() -> Any:
    """Configure a Mamba of two layers."""
    return hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, state_size=8, num_hidden_layers=LAYERS, use_cache=False)


def ids_only(sizes: Sizes) -> Inputs:
    """Build token ids alone, as when nothing is padded."""
    return (tokens(VOCABULARY, sizes["batch"], sizes["sequence"]),), {}


def fixed_text(sizes: Sizes) -> Inputs:
    """Build the inputs of `text` with a fixed length."""
    return text({**sizes, "sequence": 6})


def decoders() -> list[ModelCase]:
    """List GPT-2, Llama and its relatives, with and without a cache, and Mamba."""
    experts = DECODER | {"num_experts_per_tok": 2}
    qwen_moe = experts | {"num_experts": 4, "moe_intermediate_size": 24, "head_dim": 8}
    past = {"dynamic_shapes": PAST_SHAPES, "sizes": PAST_SIZES, "other_sizes": OTHER_PAST_SIZES}
    gpt2_past, llama_past = text_and_past(HEADS), text_and_past(2)
    batch = {"sizes": BATCH_SIZES, "other_sizes": OTHER_BATCH_SIZES}
    fixed_shapes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}
    return [
        text_case("gpt2", hf.GPT2LMHeadModel, gpt2_config, 20),
        hf_case("gpt2-past", lambda c: WithPast(hf.GPT2LMHeadModel(c)), gpt2_config, gpt2_past, quick_opset=17, **past),
        text_case("llama", hf.LlamaForCausalLM, llama_config, 23),
        hf_case("llama-ids", hf.LlamaForCausalLM, llama_config, ids_only, {"input_ids": BATCH_AND_SEQUENCE}, 13),
        hf_case("llama-past", lambda c: WithPast(hf.LlamaForCausalLM(c)), llama_config, llama_past, quick_opset=20, **past),
        hf_case(
            "llama-cache",
            hf.LlamaForCausalLM,
            llama_config,
            text_and_cache,
            quick_opset=23,
            **past | {"dynamic_shapes": CACHE_SHAPES},
        ),
        text_case("qwen3", hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**DECODER, head_dim=8), 20),
        text_case("phi3", hf.Phi3ForCausalLM, lambda: hf.Phi3Config(**DECODER, bos_token_id=1, eos_token_id=2), 17),
        text_case("mixtral", hf.MixtralForCausalLM, lambda: hf.MixtralConfig(**experts, num_local_experts=4), 20),
        text_case(
            "mixtral-batched",
            hf.MixtralForCausalLM,
            lambda: hf.MixtralConfig(**experts, num_local_experts=4, experts_implementation="batched_mm"),
            17,
        ),
        text_case("qwen3-moe", hf.Qwen3MoeForCausalLM, lambda: hf.Qwen3MoeConfig(**qwen_moe), 23),
        # The loop over the sequence is Python's: its length is that of the example, and only the batch can vary.
        hf_case("mamba", hf.MambaForCausalLM, mamba_config, fixed_text, fixed_shapes, 17, **batch),
        text_case("mamba-scan", lambda c: with_scan(hf.MambaForCausalLM(c)), mamba_config, 20),
    ]
