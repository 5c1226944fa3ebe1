"""Models that libraries ship, with dynamic axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.libraries.case import Cases, LibraryModel

CASES = Cases("model")
_TIMM = Path(__file__).with_name("timm_models.txt").read_text("utf-8").split()
"""One model of each module of timm."""


def images(model: Any, *sizes: tuple[int, ...], channels: int = 3, sized: bool = True) -> LibraryModel:
    """Return a model of images with a dynamic batch.

    With `sized`, height and width are dynamic too. The first of `sizes` (images, height, width) is the example.
    """
    names = {0: "n", **({2: "h", 3: "w"} if sized else {})}
    calls = [(torch.rand(size[0], channels, *size[1:]),) for size in sizes]
    return LibraryModel(model.eval(), calls[0], (names,), calls[1:])


def timm(name: str) -> LibraryModel:
    """Return a model of timm at its own size, or at others where it takes them."""
    import timm

    model = timm.create_model(name, pretrained=False).eval()
    try:
        with torch.no_grad():
            model(torch.rand(1, 3, 160, 96))
    except Exception:  # noqa: BLE001 - each model has its own way to refuse a size
        _, height, width = model.pretrained_cfg["input_size"]
        return images(model, (2, height, width), (1, height, width), sized=False)
    return images(model, (2, 128, 160), (1, 160, 96))


for _name in _TIMM:
    CASES("timm", _name, _name)(timm)


@CASES("ultralytics", "yolo11n", "yolo11n.yaml")
@CASES("ultralytics", "yolov8n-seg", "yolov8n-seg.yaml")
@CASES("ultralytics", "yolo11n-obb", "yolo11n-obb.yaml")
@CASES("ultralytics", "yolov10n", "yolov10n.yaml")
@CASES("ultralytics", "yolo12n", "yolo12n.yaml")
def ultralytics(name: str) -> LibraryModel:
    """Return a detector, whose sides are multiples of 32."""
    from ultralytics import YOLO

    return images(YOLO(name, verbose=False).model, (2, 64, 96), (1, 96, 64), (3, 128, 128))


@CASES("segmentation-models-pytorch", "Unet", "Unet")
@CASES("segmentation-models-pytorch", "UnetPlusPlus", "UnetPlusPlus")
@CASES("segmentation-models-pytorch", "MAnet", "MAnet")
@CASES("segmentation-models-pytorch", "Linknet", "Linknet")
@CASES("segmentation-models-pytorch", "FPN", "FPN")
@CASES("segmentation-models-pytorch", "PAN", "PAN")
@CASES("segmentation-models-pytorch", "DeepLabV3Plus", "DeepLabV3Plus")
@CASES("segmentation-models-pytorch", "UPerNet", "UPerNet")
@CASES("segmentation-models-pytorch", "Segformer", "Segformer")
def segmentation(name: str) -> LibraryModel:
    """Return a model of segmentation, whose sides are multiples of 32."""
    import segmentation_models_pytorch

    model = getattr(segmentation_models_pytorch, name)("resnet18", encoder_weights=None)
    return images(model, (2, 128, 160), (3, 160, 128), (2, 192, 192))


@CASES("segmentation-models-pytorch", "DPT")
def dpt() -> LibraryModel:
    """Return a model of one size of image."""
    from segmentation_models_pytorch import DPT

    model = DPT("tu-vit_tiny_patch16_224", encoder_weights=None, dynamic_img_size=False)
    return images(model, (2, 224, 224), (1, 224, 224), sized=False)


@CASES("monai", "UNet, 3D", "unet")
@CASES("monai", "UNETR", "unetr")
@CASES("monai", "SwinUNETR", "swin")
@CASES("monai", "DynUNet", "dynunet")
@CASES("monai", "AttentionUnet", "attention")
@CASES("monai", "DenseNet121, 3D", "densenet")
@CASES("monai", "SegResNet", "segresnet")
@CASES("monai", "VNet", "vnet")
def monai(name: str) -> LibraryModel:
    """Return a network for volumes or images."""
    from monai.networks import nets

    made: dict[str, Any] = {
        "unet": lambda: nets.UNet(3, 1, 2, (4, 8, 16), (2, 2)),
        "unetr": lambda: nets.UNETR(1, 2, (32, 32, 32), feature_size=4, hidden_size=24, mlp_dim=32, num_heads=4),
        "swin": lambda: nets.SwinUNETR(1, 2, feature_size=12, spatial_dims=2),
        "dynunet": lambda: nets.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]),
        "attention": lambda: nets.AttentionUnet(2, 1, 2, (4, 8, 16), (2, 2)),
        "densenet": lambda: nets.DenseNet121(3, 1, 2),
        "segresnet": lambda: nets.SegResNet(2, 8, 1, 2),
        "vnet": lambda: nets.VNet(2, 1, 2),
    }
    model = made[name]().eval()
    if name in ("unet", "densenet"):
        calls = [(torch.rand(2, 1, 32, 32, 48),), (torch.rand(1, 1, 48, 32, 32),)]
        return LibraryModel(model, calls[0], ({0: "n", 2: "d", 3: "h", 4: "w"},), calls[1:])
    if name == "unetr":
        return LibraryModel(model, (torch.rand(2, 1, 32, 32, 32),), ({0: "n"},), [(torch.rand(1, 1, 32, 32, 32),)])
    return images(model, (2, 64, 96), (1, 96, 64), channels=1)


@CASES("vit-pytorch", "ViT", "vit")
@CASES("vit-pytorch", "CCT", "cct")
@CASES("vit-pytorch", "MaxViT", "max_vit")
@CASES("vit-pytorch", "CvT", "cvt")
@CASES("vit-pytorch", "CrossViT", "cross_vit")
@CASES("vit-pytorch", "SimpleViT", "simple_vit")
@CASES("vit-pytorch", "CaiT", "cait")
def vit_pytorch(name: str) -> LibraryModel:
    """Return a small transformer of images."""
    import vit_pytorch
    from vit_pytorch import cait, cct, cross_vit, cvt, max_vit, simple_vit

    one = {"image_size": 64, "patch_size": 16, "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
    made: dict[str, Any] = {
        "vit": lambda: vit_pytorch.ViT(**one),
        "simple_vit": lambda: simple_vit.SimpleViT(**one),
        "cait": lambda: cait.CaiT(**one, cls_depth=1),
        "cct": lambda: cct.CCT(
            img_size=(64, 64), embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=10,
            positional_embedding="learnable",
        ),
        "cvt": lambda: cvt.CvT(num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s3_emb_dim=32, s3_depth=2),
        "max_vit": lambda: max_vit.MaxViT(num_classes=10, dim=16, dim_conv_stem=16, dim_head=8, depth=(1, 1), window_size=4),
        "cross_vit": lambda: cross_vit.CrossViT(image_size=64, num_classes=10, sm_dim=32, lg_dim=32, depth=1, sm_patch_size=8),
    }  # fmt: skip
    return images(made[name](), (2, 64, 64), (1, 64, 64), (3, 64, 64), sized=False)


@CASES("x-transformers", "a decoder with rotary embeddings", {"rotary_pos_emb": True})
@CASES("x-transformers", "a decoder with ALiBi", {"alibi_pos_bias": True})
@CASES("x-transformers", "a decoder with grouped queries", {"attn_kv_heads": 2, "rotary_pos_emb": True})
@CASES("x-transformers", "a decoder with relative positions", {"rel_pos_bias": True})
@CASES("x-transformers", "a decoder with RMSNorm and GLU", {"use_rmsnorm": True, "ff_glu": True})
def x_transformers(options: dict[str, Any]) -> LibraryModel:
    """Return a small decoder."""
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=50, max_seq_len=64, attn_layers=Decoder(dim=32, depth=2, heads=4, **options)).eval()
    calls = [(torch.randint(0, 50, size),) for size in ((2, 12), (1, 7), (3, 33))]
    return LibraryModel(model, calls[0], ({0: "n", 1: "t"},), calls[1:])


@CASES("torch_geometric", "GCN", "GCN")
@CASES("torch_geometric", "GAT", "GAT")
@CASES("torch_geometric", "GIN", "GIN")
@CASES("torch_geometric", "GraphSAGE", "GraphSAGE")
@CASES("torch_geometric", "EdgeCNN", "EdgeCNN")
@CASES("torch_geometric", "PNA", "PNA")
def torch_geometric(name: str) -> LibraryModel:
    """Return a small graph network."""
    from torch_geometric import nn

    more = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.tensor([0, 3, 4])} if name == "PNA" else {}
    model = getattr(nn, name)(8, 16, 2, 4, **more).eval()
    calls = [(torch.randn(n, 8), torch.randint(0, n, (2, e))) for n, e in ((5, 12), (9, 20), (3, 4))]
    return LibraryModel(model, calls[0], ({0: "nodes"}, {1: "edges"}), calls[1:])


@CASES("open_clip", "ViT-B-32's image tower", "image")
@CASES("open_clip", "ViT-B-32's text tower", "text")
def open_clip(tower: str) -> LibraryModel:
    """Return a tower of CLIP."""
    import open_clip

    model = open_clip.create_model("ViT-B-32", pretrained=None).eval()
    if tower == "image":
        return images(model.visual, (2, 224, 224), (1, 224, 224), sized=False)

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model.encode_text(tokens)

    calls = [(torch.randint(1, 400, (size, 77)),) for size in (2, 1, 3)]
    return LibraryModel(Text().eval(), calls[0], ({0: "n"},), calls[1:])


@CASES("kornia", "HardNet", "hardnet")
@CASES("kornia", "Canny", "canny")
@CASES("kornia", "RgbToHsv", "hsv")
@CASES("kornia", "Sobel", "sobel")
@CASES("kornia", "MedianBlur", "median")
@CASES("kornia", "GaussianBlur2d", "gauss")
@CASES("kornia", "TinyViT", "tiny_vit")
def kornia(name: str) -> LibraryModel:
    """Return an operator of images, or a model."""
    import kornia

    if name == "hardnet":
        calls = [(torch.rand(size, 1, 32, 32),) for size in (2, 1, 5)]
        return LibraryModel(kornia.feature.HardNet(pretrained=False).eval(), calls[0], ({0: "n"},), calls[1:])
    if name == "tiny_vit":
        model = kornia.contrib.TinyViT(img_size=64, embed_dims=[16, 32, 32, 48], num_heads=[1, 2, 2, 3], depths=[1, 1, 1, 1])
        return images(model, (2, 64, 64), (1, 64, 64), sized=False)
    made: dict[str, Any] = {
        "canny": lambda: kornia.filters.Canny(hysteresis=False),
        "hsv": kornia.color.RgbToHsv,
        "sobel": kornia.filters.Sobel,
        "median": lambda: kornia.filters.MedianBlur((3, 3)),
        "gauss": lambda: kornia.filters.GaussianBlur2d((3, 3), (1.0, 1.0)),
    }
    return images(made[name](), (2, 24, 32), (1, 32, 24), (3, 17, 19))


@CASES("torchvision", "SSDlite's backbone", "mobilenet_v3_large")
@CASES("torchvision", "EfficientNet", "efficientnet_b0")
@CASES("torchvision", "RegNet", "regnet_y_400mf")
@CASES("torchvision", "ShuffleNet", "shufflenet_v2_x0_5")
@CASES("torchvision", "MNASNet", "mnasnet0_5")
@CASES("torchvision", "GoogLeNet", "googlenet")
@CASES("torchvision", "Swin", "swin_t")
@CASES("torchvision", "MaxVit", "maxvit_t")
def torchvision(name: str) -> LibraryModel:
    """Return a classifier."""
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    if name in ("swin_t", "maxvit_t"):
        return images(model, (2, 224, 224), (1, 224, 224), sized=False)
    return images(model, (2, 96, 128), (1, 128, 96))
