"""Small configurations of models of images."""

from __future__ import annotations

from typing import Any

import transformers as hf

from .architecture import Architecture

VIT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.2,
}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}
DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "num_queries": 7,
}
SWIN: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [1, 1, 1, 1],
    "num_heads": [1, 2, 2, 2],
    "window_size": 4,
}
TWO_STAGES: dict[str, Any] = {"depths": [2, 2], "num_heads": [2, 4]}
LABEL, DETECT, SEGMENT, FEATURES = "image-classification", "object-detection", "image-segmentation", "feature-extraction"
BATCHES = ({"batch": 3}, {"batch": 1})
ANY = ({"batch": 3, "height": 96, "width": 160}, {"batch": 1, "height": 192, "width": 64})
ODD = ({"batch": 3, "height": 101, "width": 167}, {"batch": 1, "height": 190, "width": 75})


def _resnet(**options: Any) -> Any:
    return hf.ResNetConfig(**STAGES, embedding_size=8, **options)


def _backbone(*stages: str) -> dict[str, Any]:
    return {
        "use_timm_backbone": False,
        "backbone": None,
        "use_pretrained_backbone": False,
        "backbone_config": _resnet(out_features=list(stages)),
    }


def _rt_detr() -> Any:
    backbone = hf.RTDetrResNetConfig(**STAGES, embedding_size=8, layer_type="basic", out_features=["stage2", "stage3", "stage4"])
    # With random weights the scores of a row of the image are equal: torch.topk's choice among them is no reference.
    own = {name: value for name, value in DETR.items() if name != "encoder_ffn_dim"} | {"num_queries": 2}
    return hf.RTDetrConfig(
        **own, backbone_config=backbone, encoder_in_channels=[16, 16, 24], encoder_hidden_dim=32, encoder_ffn_dim=40,
        decoder_in_channels=[32, 32, 32], num_denoising=0, anchor_image_size=None,
    )  # fmt: skip


def _sam() -> Any:
    vision = VIT | {"mlp_dim": 40, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1], "num_pos_feats": 8}
    prompts = {"hidden_size": 16, "image_size": 32, "patch_size": 8, "mask_input_channels": 4, "image_embedding_size": 4}
    masks = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 24, "iou_head_hidden_dim": 16}
    return hf.SamConfig(vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=masks)


def _all_stages() -> list[str]:
    return ["stage1", "stage2", "stage3", "stage4"]


ARCHITECTURES = [
    Architecture("ViT", LABEL, lambda: hf.ViTConfig(**VIT), BATCHES, quick=True),
    Architecture("DeiT", LABEL, lambda: hf.DeiTConfig(**VIT), BATCHES),
    Architecture("BEiT", LABEL, lambda: hf.BeitConfig(**VIT, use_relative_position_bias=True), ANY),
    Architecture("Data2VecVision", LABEL, lambda: hf.Data2VecVisionConfig(**VIT, use_shared_relative_position_bias=True), ANY),
    Architecture("DINOv2", FEATURES, lambda: hf.Dinov2Config(**VIT), ANY),
    Architecture("DINOv3", FEATURES, lambda: hf.DINOv3ViTConfig(**VIT), ANY),
    Architecture("ViTMSN", LABEL, lambda: hf.ViTMSNConfig(**VIT), BATCHES),
    Architecture("IJEPA", LABEL, lambda: hf.IJepaConfig(**VIT), BATCHES),
    Architecture("Swin", LABEL, lambda: hf.SwinConfig(**SWIN | TWO_STAGES), ANY),
    Architecture("Swin V2", LABEL, lambda: hf.Swinv2Config(**SWIN | TWO_STAGES), ANY),
    Architecture("ConvNeXt", LABEL, lambda: hf.ConvNextConfig(**STAGES), ANY, quick=True),
    Architecture("ConvNeXt V2", LABEL, lambda: hf.ConvNextV2Config(**STAGES), ANY),
    Architecture("ResNet", LABEL, _resnet, ODD),
    Architecture("RegNet", LABEL, lambda: hf.RegNetConfig(**STAGES, embedding_size=8, groups_width=4), ODD),
    Architecture("BiT", LABEL, lambda: hf.BitConfig(**STAGES, embedding_size=8, num_groups=2), ODD),
    Architecture(
        "EfficientNet",
        LABEL,
        lambda: hf.EfficientNetConfig(width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=128, depth_divisor=4),
        ANY,
    ),
    Architecture("MobileNetV1", LABEL, lambda: hf.MobileNetV1Config(depth_multiplier=0.1), ANY),
    Architecture("MobileNetV2", LABEL, lambda: hf.MobileNetV2Config(depth_multiplier=0.1), ANY),
    Architecture(
        "MobileViT",
        LABEL,
        lambda: hf.MobileViTConfig(
            image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 32, 40], num_attention_heads=4
        ),
        ANY,
        fails="the model branches in Python on whether patches fit its features: the graph takes some sizes only, with a warning",
    ),
    Architecture(
        "LeViT",
        LABEL,
        lambda: hf.LevitConfig(
            image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]
        ),
        BATCHES,
    ),
    Architecture("PoolFormer", LABEL, lambda: hf.PoolFormerConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 24]), ANY),
    Architecture(
        "PVT",
        LABEL,
        lambda: hf.PvtConfig(image_size=64, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2]),
        BATCHES,
    ),
    Architecture("CvT", LABEL, lambda: hf.CvtConfig(embed_dim=[8, 16, 24], depth=[1, 2, 3], num_heads=[1, 2, 2]), ANY),
    Architecture("FocalNet", LABEL, lambda: hf.FocalNetConfig(image_size=64, embed_dim=8, depths=[1, 1, 1, 1]), ANY),
    Architecture(
        "Hiera",
        LABEL,
        lambda: hf.HieraConfig(image_size=[64, 64], embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1]),
        BATCHES,
    ),
    Architecture("DETR", DETECT, lambda: hf.DetrConfig(**DETR, **_backbone("stage4")), ODD),
    Architecture("Table Transformer", DETECT, lambda: hf.TableTransformerConfig(**DETR, **_backbone("stage4")), ODD),
    Architecture("Conditional DETR", DETECT, lambda: hf.ConditionalDetrConfig(**DETR, **_backbone("stage4")), ODD),
    Architecture(
        "DAB-DETR",
        DETECT,
        lambda: hf.DabDetrConfig(
            **{"hidden_size" if name == "d_model" else name: value for name, value in DETR.items()}, **_backbone("stage4")
        ),
        ODD,
    ),
    Architecture(
        "Deformable DETR",
        DETECT,
        lambda: hf.DeformableDetrConfig(**DETR, **_backbone("stage2", "stage3", "stage4")),
        ODD,
    ),
    Architecture("RT-DETR", DETECT, _rt_detr, ANY),
    Architecture("YOLOS", DETECT, lambda: hf.YolosConfig(**VIT | {"image_size": [32, 48]}, num_detection_tokens=5), ANY),
    Architecture(
        "SegFormer", SEGMENT, lambda: hf.SegformerConfig(**STAGES, num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16), ODD
    ),
    Architecture(
        "BEiT",
        SEGMENT,
        lambda: hf.BeitConfig(
            **VIT | {"num_hidden_layers": 4}, out_indices=[0, 1, 2, 3], pool_scales=[1, 2], auxiliary_channels=16
        ),
        BATCHES,
    ),
    Architecture(
        "MobileViT",
        SEGMENT,
        lambda: hf.MobileViTConfig(
            image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 32, 40], num_attention_heads=4
        ),
        ANY,
        fails="the model branches in Python on whether patches fit its features: the graph takes some sizes only, with a warning",
    ),
    Architecture(
        "UPerNet",
        SEGMENT,
        lambda: hf.UperNetConfig(
            backbone_config=hf.ConvNextConfig(**STAGES, out_features=_all_stages()),
            hidden_size=16,
            pool_scales=[1, 2],
            auxiliary_in_channels=16,
            auxiliary_channels=16,
        ),
        ANY,
    ),
    Architecture(
        "DPT",
        SEGMENT,
        lambda: hf.DPTConfig(
            **VIT | {"num_hidden_layers": 4},
            backbone_out_indices=[0, 1, 2, 3],
            neck_hidden_sizes=[8, 16, 16, 24],
            fusion_hidden_size=16,
            is_hybrid=False,
        ),
        BATCHES,
    ),
    Architecture(
        "DETR", SEGMENT, lambda: hf.DetrConfig(**DETR | {"encoder_attention_heads": 8}, **_backbone(*_all_stages())), ODD
    ),
    Architecture("SAM", SEGMENT, _sam, BATCHES),
]
