"""Models of `transformers` with small configurations and random weights: nothing is fetched.

Language models that run with a cache are wrapped to take and return plain tensors in nested tuples, as a runtime would hold them;
one case passes a DynamicCache itself, so that a container registered with pytree is exercised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers.integrations.executorch import register_dynamic_cache_export_support

from .case import TRANSFORMER_OPSETS, Inputs, ModelCase, Sizes, floats, padding_mask, registry, seeded, tokens
from .scan_mixer import with_scan

VOCABULARY = 99
LAYERS, HEADS, HIDDEN = 2, 4, 32
BATCH_AND_SEQUENCE = {0: "batch", 1: "sequence"}
TEXT_SIZES = {"batch": 2, "sequence": 7}
OTHER_TEXT_SIZES = ({"batch": 3, "sequence": 11}, {"batch": 1, "sequence": 5})
BATCH_SIZES = {"batch": 2}
OTHER_BATCH_SIZES = ({"batch": 3}, {"batch": 1})

# Encoders of BERT's family and decoders of Llama's use these names for their sizes; the others have their own.
COMMON = {
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
    """A case of a model class and its configuration."""
    build = seeded(lambda: model(config()))
    return ModelCase(name, build, inputs, sizes, other_sizes, dynamic_shapes, TRANSFORMER_OPSETS, quick_opset, **options)


def text(sizes: Sizes) -> Inputs:
    """Token ids and a mask with padding on the right."""
    ids = tokens(VOCABULARY, sizes["batch"], sizes["sequence"])
    return (), {"input_ids": ids, "attention_mask": padding_mask(*ids.shape)}


TEXT_SHAPES = {"input_ids": BATCH_AND_SEQUENCE, "attention_mask": BATCH_AND_SEQUENCE}


def text_case(name: str, model: Callable[..., nn.Module], config: Callable[[], Any], quick_opset: int, **options: Any) -> ModelCase:
    """A case of a model of ``input_ids`` and ``attention_mask``."""
    return hf_case(name, model, config, text, TEXT_SHAPES, quick_opset, **options)


def encoders() -> list[ModelCase]:
    """BERT and its relatives."""
    bert_like = COMMON | {"max_position_embeddings": 64}
    distil = {"vocab_size": VOCABULARY, "dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 40, "max_position_embeddings": 64}
    return [
        text_case("bert", hf.BertModel, lambda: hf.BertConfig(**bert_like), 17),
        text_case("roberta", hf.RobertaForMaskedLM, lambda: hf.RobertaConfig(**bert_like), 20),
        text_case("distilbert", hf.DistilBertForSequenceClassification, lambda: hf.DistilBertConfig(**distil), 13),
    ]


def gpt2_config() -> Any:
    """A GPT-2 of two layers."""
    return hf.GPT2Config(vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_positions=64, bos_token_id=1, eos_token_id=2, use_cache=False)


def llama_config() -> Any:
    """A Llama of two layers with grouped queries."""
    return hf.LlamaConfig(**DECODER)


class WithPast(nn.Module):
    """A causal language model whose cache is a nested tuple of tensors: one (key, value) per layer, each (batch, heads, past, head size)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        past: tuple[tuple[torch.Tensor, torch.Tensor], ...],
    ) -> tuple[torch.Tensor, tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
        """The logits of the new tokens and the cache with them in it."""
        cache = hf.DynamicCache(past)
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return result.logits, tuple((layer.keys, layer.values) for layer in cache.layers)


def past_values(sizes: Sizes, heads: int) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """A cache of random keys and values for ``heads`` heads of the common head size."""
    shape = (sizes["batch"], heads, sizes["past"], HIDDEN // HEADS)
    return tuple((floats(*shape, seed=10 + layer), floats(*shape, seed=20 + layer)) for layer in range(LAYERS))


def text_and_past(heads: int) -> Callable[[Sizes], Inputs]:
    """Inputs of `WithPast`: new tokens, a mask over the past and them (padding on the left), the cache."""

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
    "attention_mask": {0: "batch", 1: "total"},
    "past": ((PAST_LEAF, PAST_LEAF),) * LAYERS,
}


def text_and_cache(sizes: Sizes) -> Inputs:
    """Keyword inputs with a DynamicCache, whose pytree is a list of keys and a list of values."""
    register_dynamic_cache_export_support()
    ids = tokens(VOCABULARY, sizes["batch"], sizes["sequence"])
    mask = padding_mask(sizes["batch"], sizes["past"] + sizes["sequence"], left=True)
    cache = hf.DynamicCache(past_values(sizes, 2))
    return (), {"input_ids": ids, "attention_mask": mask, "past_key_values": cache, "use_cache": True}


CACHE_SHAPES = {
    "input_ids": BATCH_AND_SEQUENCE,
    "attention_mask": {0: "batch", 1: "total"},
    "past_key_values": [[PAST_LEAF] * LAYERS, [PAST_LEAF] * LAYERS],
    "use_cache": None,
}


def mamba_config() -> Any:
    """A Mamba of two layers."""
    return hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, state_size=8, num_hidden_layers=LAYERS, use_cache=False)


def ids_only(sizes: Sizes) -> Inputs:
    """Token ids alone, as when nothing is padded."""
    return (tokens(VOCABULARY, sizes["batch"], sizes["sequence"]),), {}


def fixed_text(sizes: Sizes) -> Inputs:
    """The inputs of `text` with a fixed length."""
    return text({**sizes, "sequence": 6})


def decoders() -> list[ModelCase]:
    """GPT-2, Llama and its relatives, with and without a cache, and Mamba."""
    moe = DECODER | {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "batched_mm"}
    qwen_moe = DECODER | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 8, "experts_implementation": "batched_mm"}
    past = {"sizes": PAST_SIZES, "other_sizes": OTHER_PAST_SIZES}
    batch = {"sizes": BATCH_SIZES, "other_sizes": OTHER_BATCH_SIZES}
    fixed_shapes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}
    return [
        text_case("gpt2", hf.GPT2LMHeadModel, gpt2_config, 20),
        hf_case("gpt2-past", lambda c: WithPast(hf.GPT2LMHeadModel(c)), gpt2_config, text_and_past(HEADS), PAST_SHAPES, 17, **past),
        text_case("llama", hf.LlamaForCausalLM, llama_config, 23),
        hf_case("llama-ids", hf.LlamaForCausalLM, llama_config, ids_only, {"input_ids": BATCH_AND_SEQUENCE}, 13),
        hf_case("llama-past", lambda c: WithPast(hf.LlamaForCausalLM(c)), llama_config, text_and_past(2), PAST_SHAPES, 20, **past),
        hf_case("llama-cache", hf.LlamaForCausalLM, llama_config, text_and_cache, CACHE_SHAPES, 23, **past),
        text_case("qwen3", hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**DECODER, head_dim=8), 20),
        text_case("phi3", hf.Phi3ForCausalLM, lambda: hf.Phi3Config(**DECODER, bos_token_id=1, eos_token_id=2), 17),
        # The default loop over experts visits only those that were chosen: a number known at run time alone, which torch.export
        # refuses; the grouped product is an operator without an ONNX equivalent. The batched product is what a user sets for export.
        text_case("mixtral", hf.MixtralForCausalLM, lambda: hf.MixtralConfig(**moe), 20),
        text_case("qwen3-moe", hf.Qwen3MoeForCausalLM, lambda: hf.Qwen3MoeConfig(**qwen_moe), 23),
        # The loop over the sequence is Python's: its length is that of the example, and only the batch can vary.
        hf_case("mamba", hf.MambaForCausalLM, mamba_config, fixed_text, fixed_shapes, 17, **batch),
        text_case("mamba-scan", lambda c: with_scan(hf.MambaForCausalLM(c)), mamba_config, 20),
    ]


def source_and_target(sizes: Sizes) -> Inputs:
    """Inputs of an encoder and a decoder of text."""
    kwargs = text(sizes)[1]
    kwargs["decoder_input_ids"] = tokens(VOCABULARY, sizes["batch"], sizes["target"], seed=3)
    return (), kwargs


PAIR_SIZES = TEXT_SIZES | {"target": 4}
OTHER_PAIR_SIZES = tuple({**sizes, "target": target} for sizes, target in zip(OTHER_TEXT_SIZES, (6, 3), strict=True))


def bart_like() -> dict[str, Any]:
    """The sizes that BART and Whisper have in common."""
    both = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 40}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    return sides | {"vocab_size": VOCABULARY, "d_model": HIDDEN, "use_cache": False}


def whisper_config() -> Any:
    """A Whisper whose encoder sees 20 positions."""
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return hf.WhisperConfig(**bart_like(), **ends, num_mel_bins=8, max_source_positions=20, max_target_positions=32)


def spectrogram(sizes: Sizes) -> Inputs:
    """Inputs of Whisper: its encoder takes one length only, twice its positions."""
    features = floats(sizes["batch"], 8, 40)
    return (), {"input_features": features, "decoder_input_ids": tokens(VOCABULARY, sizes["batch"], sizes["target"])}


def pairs() -> list[ModelCase]:
    """Encoders with decoders."""
    t5 = {"vocab_size": VOCABULARY, "d_model": HIDDEN, "d_kv": 8, "d_ff": 40, "num_layers": LAYERS, "num_heads": HEADS, "use_cache": False}
    shapes = TEXT_SHAPES | {"decoder_input_ids": {0: "batch", 1: "target"}}
    sizes = {"sizes": PAIR_SIZES, "other_sizes": OTHER_PAIR_SIZES}
    speech = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    return [
        hf_case("t5", hf.T5ForConditionalGeneration, lambda: hf.T5Config(**t5), source_and_target, shapes, 13, **sizes),
        hf_case("bart", hf.BartForConditionalGeneration, lambda: bart_config(), source_and_target, shapes, 23, **sizes),
        hf_case("whisper", hf.WhisperForConditionalGeneration, whisper_config, spectrogram, speech, 20, **sizes),
    ]


def bart_config() -> Any:
    """A BART of two layers on each side."""
    return hf.BartConfig(**bart_like(), max_position_embeddings=64)


def image(channels: int, height: int, width: int) -> Callable[[Sizes], Inputs]:
    """Inputs of a vision model with a fixed image size."""
    return lambda sizes: ((), {"pixel_values": floats(sizes["batch"], channels, height, width)})


def any_image(sizes: Sizes) -> Inputs:
    """Inputs of a vision model of images of any size."""
    return (), {"pixel_values": floats(sizes["batch"], 3, sizes["height"], sizes["width"])}


def clip_config() -> Any:
    """A CLIP with two small towers."""
    tower = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 40}
    words = tower | {"vocab_size": VOCABULARY, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    return hf.CLIPConfig(text_config=words, vision_config=tower | {"image_size": 32, "patch_size": 8}, projection_dim=16)


def image_and_text(sizes: Sizes) -> Inputs:
    """Inputs of CLIP; it reads the text's vector at the end token, here in the last unmasked place."""
    ids = tokens(VOCABULARY, sizes["texts"], sizes["sequence"])
    mask = padding_mask(*ids.shape)
    ids[torch.arange(len(ids)), mask.sum(1) - 1] = 2
    return (), {"input_ids": ids, "pixel_values": floats(sizes["batch"], 3, 32, 32), "attention_mask": mask}


def detr_config() -> Any:
    """A DETR on a ResNet of two stages that is part of transformers."""
    backbone = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    return hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=HIDDEN,
        encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=40, decoder_ffn_dim=40, num_queries=6, num_labels=5,
    )  # fmt: skip


def segformer_config() -> Any:
    """A SegFormer of two stages."""
    return hf.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[2, 4], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=5,
    )  # fmt: skip


def vision() -> list[ModelCase]:
    """Models of images, and of images and text."""
    vit = COMMON | {"image_size": 32, "patch_size": 8}
    del vit["vocab_size"]
    batch = {"sizes": BATCH_SIZES, "other_sizes": OTHER_BATCH_SIZES}
    images = {"pixel_values": {0: "batch"}}
    any_size = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    clip_shapes = {"input_ids": {0: "texts", 1: "sequence"}, "pixel_values": {0: "batch"}, "attention_mask": {0: "texts", 1: "sequence"}}
    clip_sizes = {"batch": 2, "texts": 3, "sequence": 7}
    other_clip_sizes = ({"batch": 4, "texts": 5, "sequence": 9}, {"batch": 1, "texts": 2, "sequence": 6})
    free = {"sizes": {"batch": 2, "height": 64, "width": 96}, "other_sizes": ({"batch": 3, "height": 96, "width": 64}, {"batch": 1, "height": 80, "width": 112})}
    return [
        hf_case("vit", hf.ViTForImageClassification, lambda: hf.ViTConfig(**vit), image(3, 32, 32), images, 20, **batch),
        hf_case("clip", hf.CLIPModel, clip_config, image_and_text, clip_shapes, 17, clip_sizes, other_clip_sizes),
        hf_case("detr", hf.DetrForObjectDetection, detr_config, any_image, any_size, 20, **free),
        hf_case("segformer", hf.SegformerForSemanticSegmentation, segformer_config, any_image, any_size, 13, **free),
    ]


def wav2vec2_config() -> Any:
    """A wav2vec 2.0 of two layers with three convolutions."""
    return hf.Wav2Vec2Config(
        **COMMON, conv_dim=[16, 16, 16], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 2], num_feat_extract_layers=3,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip


def waves(sizes: Sizes) -> Inputs:
    """Inputs of wav2vec 2.0: samples of sound."""
    return (), {"input_values": floats(sizes["batch"], sizes["samples"])}


def audio() -> list[ModelCase]:
    """Models of sound (Whisper is among the pairs)."""
    sizes = {"sizes": {"batch": 2, "samples": 400}, "other_sizes": ({"batch": 3, "samples": 640}, {"batch": 1, "samples": 333})}
    shapes = {"input_values": {0: "batch", 1: "samples"}}
    return [hf_case("wav2vec2", hf.Wav2Vec2ForCTC, wav2vec2_config, waves, shapes, 20, **sizes)]


CASES: dict[str, ModelCase] = registry([*encoders(), *decoders(), *pairs(), *vision(), *audio()])
