"""Small configurations of models of images and text."""

from __future__ import annotations

from typing import Any

import transformers as hf

from .architecture import Architecture
from .vision_configs import VIT

TEXT: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DECODER: dict[str, Any] = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
OPT: dict[str, Any] = TEXT | {"model_type": "opt", "ffn_dim": 40, "word_embed_proj_dim": 32}
SIGLIP: dict[str, Any] = VIT | {"model_type": "siglip_vision_model", "vision_use_head": False, "projection_dim": 32}
PATCHES: dict[str, Any] = {
    "depth": 2,
    "embed_dim": 32,
    "num_heads": 4,
    "mlp_ratio": 2,
    "hidden_size": 32,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
}
MROPE = DECODER | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}}
TOKENS = {"image_token_id": 98, "video_token_id": 97, "vision_start_token_id": 96, "vision_end_token_id": 95}
MATCH, TALK = "zero-shot-image-classification", "image-text-to-text"
SIZES = ({"batch": 3, "sequence": 17}, {"batch": 1, "sequence": 7})
PATCHED = ({"batch": 3, "sequence": 17, "height": 24, "width": 16}, {"batch": 1, "sequence": 7, "height": 8, "width": 40})


def _llava() -> Any:
    text, vision = hf.LlamaConfig(**DECODER), hf.CLIPVisionConfig(**VIT)
    return hf.LlavaConfig(text_config=text, vision_config=vision, image_token_id=98, vision_feature_layer=-1)


def _paligemma() -> Any:
    return hf.PaliGemmaConfig(
        text_config=DECODER | {"model_type": "gemma"}, vision_config=SIGLIP, image_token_id=110, projection_dim=32
    )


def _gemma3() -> Any:
    text = DECODER | {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 8}
    return hf.Gemma3Config(
        text_config=text,
        vision_config=SIGLIP,
        mm_tokens_per_image=4,
        image_token_index=98,
        boi_token_index=97,
        eoi_token_index=96,
    )


def _blip2() -> Any:
    queries = {name: value for name, value in TEXT.items() if "token" not in name} | {"encoder_hidden_size": 32}
    return hf.Blip2Config(text_config=OPT, vision_config=VIT, qformer_config=queries, num_query_tokens=5, image_token_index=98)


def _qwen2_5_vl() -> Any:
    vision = {name: value for name, value in PATCHES.items() if name not in ("embed_dim", "mlp_ratio")}
    window = {"intermediate_size": 40, "out_hidden_size": 32, "window_size": 16, "fullatt_block_indexes": [1]}
    return hf.Qwen2_5_VLConfig(text_config=MROPE, vision_config=vision | window, **TOKENS)


def _idefics3() -> Any:
    return hf.Idefics3Config(text_config=hf.LlamaConfig(**DECODER), vision_config=VIT, image_token_id=98, scale_factor=2)


ARCHITECTURES = [
    Architecture("CLIP", MATCH, lambda: hf.CLIPConfig(text_config=TEXT, vision_config=VIT, projection_dim=24), SIZES, quick=True),
    Architecture("SigLIP", MATCH, lambda: hf.SiglipConfig(text_config=TEXT | {"projection_size": 32}, vision_config=VIT), SIZES),
    Architecture(
        "AltCLIP",
        MATCH,
        lambda: hf.AltCLIPConfig(text_config=TEXT | {"project_dim": 24}, vision_config=VIT, projection_dim=24),
        SIZES,
    ),
    Architecture(
        "Chinese-CLIP", MATCH, lambda: hf.ChineseCLIPConfig(text_config=TEXT, vision_config=VIT, projection_dim=24), SIZES
    ),
    Architecture("BLIP", MATCH, lambda: hf.BlipConfig(text_config=TEXT, vision_config=VIT, projection_dim=24), SIZES),
    Architecture("CLIPSeg", MATCH, lambda: hf.CLIPSegConfig(text_config=TEXT, vision_config=VIT, projection_dim=24), SIZES),
    Architecture(
        "CLIP", "feature-extraction", lambda: hf.CLIPConfig(text_config=TEXT, vision_config=VIT, projection_dim=24), SIZES
    ),
    Architecture("LLaVA", TALK, _llava, SIZES, quick=True),
    Architecture("PaliGemma", TALK, _paligemma, SIZES),
    Architecture("Gemma 3", TALK, _gemma3, SIZES),
    Architecture("BLIP-2", TALK, _blip2, SIZES),
    Architecture(
        "Idefics3",
        TALK,
        _idefics3,
        SIZES,
        fails="pixel_values are groups of images with masks of their own, [batch, images, channels, height, width]",
    ),
    Architecture("Qwen2-VL", TALK, lambda: hf.Qwen2VLConfig(text_config=MROPE, vision_config=PATCHES, **TOKENS), PATCHED),
    Architecture(
        "Qwen2.5-VL",
        TALK,
        _qwen2_5_vl,
        PATCHED,
        fails="the vision tower computes windows of patches in Python from each image's size",
    ),
]
