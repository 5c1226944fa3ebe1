"""Common parts of the cases of `transformers`: small sizes, and inputs of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from .case import TRANSFORMER_OPSETS, Inputs, ModelCase, Sizes, padding_mask, seeded, tokens

VOCABULARY = 99
LAYERS, HEADS, HIDDEN = 2, 4, 32
BATCH_AND_SEQUENCE = {0: "batch", 1: "sequence"}
TEXT_SIZES = {"batch": 2, "sequence": 7}
OTHER_TEXT_SIZES = ({"batch": 3, "sequence": 11}, {"batch": 1, "sequence": 5})
BATCH_SIZES = {"batch": 2}
OTHER_BATCH_SIZES = ({"batch": 3}, {"batch": 1})

# Encoders of BERT's family and decoders of Llama's use these names for their sizes; the others have their own.
# The weights are larger than the default, so that outputs depend on inputs by more than the tolerance.
SPREAD = 0.2
COMMON = {
    "initializer_range": SPREAD,
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 40,
}
DECODER = COMMON | {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "use_cache": False}


def hf_case(
    name: str,
    model: Callable[..., nn.Module],
    config: Callable[[], Any],
    inputs: Callable[[Sizes], Inputs],
    dynamic_shapes: Any,
    quick_opset: int,
    sizes: Sizes = TEXT_SIZES,
    other_sizes: tuple[Sizes, ...] = OTHER_TEXT_SIZES,
    **options: Any,
) -> ModelCase:
    """Build a case of a model class and its configuration."""
    build = seeded(lambda: model(config()))
    return ModelCase(name, build, inputs, sizes, other_sizes, dynamic_shapes, TRANSFORMER_OPSETS, quick_opset, **options)


def text(sizes: Sizes) -> Inputs:
    """Build token ids, and a mask with padding on the right."""
    ids = tokens(VOCABULARY, sizes["batch"], sizes["sequence"])
    return (), {"input_ids": ids, "attention_mask": padding_mask(*ids.shape)}


TEXT_SHAPES = {"input_ids": BATCH_AND_SEQUENCE, "attention_mask": BATCH_AND_SEQUENCE}


def text_case(name: str, model: Callable[..., nn.Module], config: Callable[[], Any], quick_opset: int) -> ModelCase:
    """Build a case of a model of ``input_ids`` and ``attention_mask``."""
    return hf_case(name, model, config, text, TEXT_SHAPES, quick_opset)
