"""Models of `transformers` at their published sizes, with random weights.

Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn

from .case import BenchCase, Sizes, floats, padding_mask, tokens

EXAMPLE, OTHER = {"batch": 2}, {"batch": 1}
TEXT_EXAMPLE, TEXT_OTHER = {"batch": 2, "sequence": 16}, {"batch": 1, "sequence": 128}
PAIR_EXAMPLE, PAIR_OTHER = TEXT_EXAMPLE | {"target": 8}, TEXT_OTHER | {"target": 32}
BATCH_AND_SEQUENCE, BATCH_AND_TARGET = {0: "batch", 1: "sequence"}, {0: "batch", 1: "target"}


class Positional(nn.Module):
    """A model of `transformers` with plain tensors as arguments and results."""

    def __init__(self, model: nn.Module, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.outputs = outputs

    def call(self, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Run the model, and return the chosen outputs."""
        result = self.model(**kwargs)
        return tuple(result[name] for name in self.outputs)


class Text(Positional):
    """A model that takes ids and a mask."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the chosen outputs."""
        return self.call(input_ids=input_ids, attention_mask=attention_mask)


class Pair(Positional):
    """A model that takes ids and a mask of the source, and ids of the target."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the chosen outputs."""
        return self.call(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids)


class Speech(Positional):
    """A model that takes a spectrogram and ids of the target."""

    def forward(self, input_features: torch.Tensor, decoder_input_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the chosen outputs."""
        return self.call(input_features=input_features, decoder_input_ids=decoder_input_ids)


class Image(Positional):
    """A model that takes an image."""

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the chosen outputs."""
        return self.call(pixel_values=pixel_values)


def text(name: str, model: Callable[[], nn.Module], vocabulary: int, *outputs: str, quick: bool = False) -> BenchCase:
    """Create a case of a text model."""

    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        ids = tokens(vocabulary, sizes["batch"], sizes["sequence"])
        return ids, padding_mask(*ids.shape)

    return BenchCase(
        name, lambda: Text(model(), outputs), inputs, TEXT_EXAMPLE, TEXT_OTHER, (BATCH_AND_SEQUENCE, BATCH_AND_SEQUENCE), quick
    )


def image(name: str, model: Callable[[], nn.Module], side: int, output: str) -> BenchCase:
    """Create a case of a vision model with one image size."""

    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        return (floats(sizes["batch"], 3, side, side),)

    return BenchCase(name, lambda: Image(model(), (output,)), inputs, EXAMPLE, OTHER, ({0: "batch"},))


def t5_inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """Return the arguments of T5."""
    ids = tokens(32_128, sizes["batch"], sizes["sequence"])
    return ids, padding_mask(*ids.shape), tokens(32_128, sizes["batch"], sizes["target"])


def whisper_inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """Return the arguments of Whisper: 30 seconds of sound."""
    return floats(sizes["batch"], 80, 3000), tokens(50_000, sizes["batch"], sizes["target"])


def llama() -> nn.Module:
    """Create a Llama of 110 million parameters with grouped queries."""
    config = hf.LlamaConfig(
        vocab_size=32_000, hidden_size=640, intermediate_size=1792, num_hidden_layers=14, num_attention_heads=10,
        num_key_value_heads=5, max_position_embeddings=1024, use_cache=False,
    )  # fmt: skip
    return hf.LlamaForCausalLM(config)


def t5_small() -> nn.Module:
    """Create T5-small, the default configuration."""
    return hf.T5ForConditionalGeneration(hf.T5Config(use_cache=False))


def whisper_tiny() -> nn.Module:
    """Create Whisper tiny: 4 layers of width 384 on each side."""
    side = {"layers": 4, "attention_heads": 6, "ffn_dim": 1536}
    sides = {f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()}
    return hf.WhisperForConditionalGeneration(hf.WhisperConfig(d_model=384, use_cache=False, **sides))


def vit_large() -> nn.Module:
    """Create ViT-L/16."""
    return hf.ViTForImageClassification(
        hf.ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=1000)
    )


CASES = [
    text("distilbert", lambda: hf.DistilBertModel(hf.DistilBertConfig()), 30_000, "last_hidden_state"),
    text("bert-base", lambda: hf.BertModel(hf.BertConfig()), 30_000, "last_hidden_state", "pooler_output"),
    text("gpt2", lambda: hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False)), 50_000, "logits"),
    text("llama-110m", llama, 32_000, "logits"),
    BenchCase(
        "t5-small", lambda: Pair(t5_small(), ("logits",)), t5_inputs, PAIR_EXAMPLE, PAIR_OTHER,
        (BATCH_AND_SEQUENCE, BATCH_AND_SEQUENCE, BATCH_AND_TARGET),
    ),
    BenchCase(
        "whisper-tiny", lambda: Speech(whisper_tiny(), ("logits",)), whisper_inputs, {"batch": 2, "target": 8},
        {"batch": 1, "target": 32}, ({0: "batch"}, BATCH_AND_TARGET),
    ),
    image("segformer-b0", lambda: hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_labels=150)), 512, "logits"),
    image("vit-base", lambda: hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000)), 224, "logits"),
    image("vit-large", vit_large, 224, "logits"),
]  # fmt: skip
