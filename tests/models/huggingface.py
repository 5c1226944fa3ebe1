"""`transformers` models, small and with random weights: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from .case import Inputs, ModelCase, Sizes, floats, padding_mask, registry, tokens
from .hf_base import (
    BATCH_SIZES,
    COMMON,
    HEADS,
    HIDDEN,
    LAYERS,
    OTHER_BATCH_SIZES,
    OTHER_TEXT_SIZES,
    SPREAD,
    TEXT_SHAPES,
    TEXT_SIZES,
    VOCABULARY,
    hf_case,
    text,
    text_case,
)
from .hf_decoders import decoders


def encoders() -> list[ModelCase]:
    """List BERT and its relatives."""
    bert_like = COMMON | {"max_position_embeddings": 64}
    distil = {
        "vocab_size": VOCABULARY,
        "dim": HIDDEN,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "hidden_dim": 40,
        "initializer_range": SPREAD,
    }
    return [
        text_case("bert", hf.BertModel, lambda: hf.BertConfig(**bert_like), 17),
        text_case("roberta", hf.RobertaForMaskedLM, lambda: hf.RobertaConfig(**bert_like), 20),
        text_case("distilbert", hf.DistilBertForSequenceClassification, lambda: hf.DistilBertConfig(**distil), 13),
    ]


def source_and_target(sizes: Sizes) -> Inputs:
    """Build inputs of an encoder and a decoder of text."""
    kwargs = text(sizes)[1]
    kwargs["decoder_input_ids"] = tokens(VOCABULARY, sizes["batch"], sizes["target"], seed=3)
    return (), kwargs


PAIR_SIZES = TEXT_SIZES | {"target": 4}
OTHER_PAIR_SIZES = tuple({**sizes, "target": target} for sizes, target in zip(OTHER_TEXT_SIZES, (6, 3), strict=True))


def bart_like() -> dict[str, Any]:
    """Return the sizes that BART and Whisper have in common."""
    both = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 40}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    return sides | {"vocab_size": VOCABULARY, "d_model": HIDDEN, "init_std": SPREAD, "use_cache": False}


def whisper_config() -> Any:
    """Configure a Whisper whose encoder has 20 positions."""
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return hf.WhisperConfig(**bart_like(), **ends, num_mel_bins=8, max_source_positions=20, max_target_positions=32)


def spectrogram(sizes: Sizes) -> Inputs:
    """Build inputs of Whisper; its encoder takes one length only, twice its positions."""
    features = floats(sizes["batch"], 8, 40)
    return (), {"input_features": features, "decoder_input_ids": tokens(VOCABULARY, sizes["batch"], sizes["target"])}


def pairs() -> list[ModelCase]:
    """List encoders with decoders."""
    t5 = {"vocab_size": VOCABULARY, "d_model": HIDDEN, "d_kv": 8, "d_ff": 40, "num_layers": LAYERS, "num_heads": HEADS}
    shapes = TEXT_SHAPES | {"decoder_input_ids": {0: "batch", 1: "target"}}
    sizes = {"sizes": PAIR_SIZES, "other_sizes": OTHER_PAIR_SIZES}
    speech = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    return [
        hf_case(
            "t5",
            hf.T5ForConditionalGeneration,
            lambda: hf.T5Config(**t5, use_cache=False),
            source_and_target,
            shapes,
            13,
            **sizes,
        ),
        hf_case("bart", hf.BartForConditionalGeneration, bart_config, source_and_target, shapes, 23, **sizes),
        hf_case("whisper", hf.WhisperForConditionalGeneration, whisper_config, spectrogram, speech, 20, **sizes),
    ]


def bart_config() -> Any:
    """Configure a BART of two layers on each side."""
    return hf.BartConfig(**bart_like(), max_position_embeddings=64)


def image(channels: int, height: int, width: int) -> Callable[[Sizes], Inputs]:
    """Build inputs of a vision model with a fixed image size."""
    return lambda sizes: ((), {"pixel_values": floats(sizes["batch"], channels, height, width)})


def any_image(sizes: Sizes) -> Inputs:
    """Build inputs of a vision model of images of any size."""
    return (), {"pixel_values": floats(sizes["batch"], 3, sizes["height"], sizes["width"])}


def clip_config() -> Any:
    """Configure a CLIP with two small towers."""
    tower = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 40}
    ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    words = tower | ends | {"vocab_size": VOCABULARY, "max_position_embeddings": 32}
    return hf.CLIPConfig(
        text_config=words, vision_config=tower | {"image_size": 32, "patch_size": 8}, projection_dim=16, initializer_factor=5.0
    )


def image_and_text(sizes: Sizes) -> Inputs:
    """Build inputs of CLIP, which reads the text's vector at the end token, the last."""
    ids = tokens(VOCABULARY, sizes["texts"], sizes["sequence"])
    mask = padding_mask(*ids.shape)
    ids[torch.arange(len(ids)), mask.sum(1) - 1] = 2
    return (), {"input_ids": ids, "pixel_values": floats(sizes["batch"], 3, 32, 32), "attention_mask": mask}


def detr_config() -> Any:
    """Configure a DETR on a ResNet of two stages from transformers."""
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    return hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=HIDDEN,
        encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=40, decoder_ffn_dim=40, num_queries=6, init_std=SPREAD, num_labels=5,
    )  # fmt: skip


def segformer_config() -> Any:
    """Configure a SegFormer of two stages."""
    return hf.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[2, 4], mlp_ratios=[2, 2], initializer_range=SPREAD, decoder_hidden_size=16, num_labels=5,
    )  # fmt: skip


def resnet_config() -> Any:
    """Configure a ResNet of four stages."""
    return hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic")


def regnet_config() -> Any:
    """Configure a RegNet of four stages."""
    return hf.RegNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 2, 1], groups_width=4)


def poolformer_config() -> Any:
    """Configure a PoolFormer of four stages."""
    return hf.PoolFormerConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])


def vision() -> list[ModelCase]:
    """List models of images, and of images and text."""
    vit = COMMON | {"image_size": 32, "patch_size": 8}
    del vit["vocab_size"]
    batch = {"sizes": BATCH_SIZES, "other_sizes": OTHER_BATCH_SIZES}
    images = {"pixel_values": {0: "batch"}}
    any_size = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    texts = {0: "texts", 1: "sequence"}
    clip_shapes = {"input_ids": texts, "pixel_values": {0: "batch"}, "attention_mask": texts}
    clip_sizes = {"batch": 2, "texts": 3, "sequence": 7}
    other_clip_sizes = ({"batch": 4, "texts": 5, "sequence": 9}, {"batch": 1, "texts": 2, "sequence": 6})
    unseen = ({"batch": 3, "height": 96, "width": 64}, {"batch": 1, "height": 80, "width": 112})
    free = {"sizes": {"batch": 2, "height": 64, "width": 96}, "other_sizes": unseen}
    larger = (
        {"batch": 1, "height": 96, "width": 96},
        {"batch": 3, "height": 33, "width": 200},
        {"batch": 1, "height": 32, "width": 32},
    )
    small = {"sizes": {"batch": 2, "height": 32, "width": 64}, "other_sizes": larger}  # strides leave a height of 1
    return [
        hf_case("vit", hf.ViTForImageClassification, lambda: hf.ViTConfig(**vit), image(3, 32, 32), images, 20, **batch),
        hf_case("clip", hf.CLIPModel, clip_config, image_and_text, clip_shapes, 17, clip_sizes, other_clip_sizes),
        hf_case("detr", hf.DetrForObjectDetection, detr_config, any_image, any_size, 20, **free),
        hf_case("segformer", hf.SegformerForSemanticSegmentation, segformer_config, any_image, any_size, 13, **free),
        hf_case("resnet-small-image", hf.ResNetModel, resnet_config, any_image, any_size, 17, **small),
        hf_case("regnet-small-image", hf.RegNetModel, regnet_config, any_image, any_size, 20, **small),
        hf_case("poolformer-small-image", hf.PoolFormerModel, poolformer_config, any_image, any_size, 23, **small),
    ]


def wav2vec2_config() -> Any:
    """Configure a wav2vec 2.0 of two layers with three convolutions."""
    return hf.Wav2Vec2Config(
        **COMMON, conv_dim=[16, 16, 16], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 2], num_feat_extract_layers=3,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip


def waves(sizes: Sizes) -> Inputs:
    """Build inputs of wav2vec 2.0: samples of sound."""
    return (), {"input_values": floats(sizes["batch"], sizes["samples"])}


def audio() -> list[ModelCase]:
    """List models of sound; Whisper is among the pairs."""
    sizes = {"sizes": {"batch": 2, "samples": 400}, "other_sizes": ({"batch": 3, "samples": 640}, {"batch": 1, "samples": 333})}
    shapes = {"input_values": {0: "batch", 1: "samples"}}
    return [hf_case("wav2vec2", hf.Wav2Vec2ForCTC, wav2vec2_config, waves, shapes, 20, **sizes)]


CASES: dict[str, ModelCase] = registry([*encoders(), *decoders(), *pairs(), *vision(), *audio()])
