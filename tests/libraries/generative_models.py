"""Models that libraries for images, tables, time series and molecules ship, with dynamic axes."""

from __future__ import annotations

from typing import Any

import torch

from tests.libraries.case import Cases, LibraryModel
from tests.libraries.models import images

CASES = Cases("model")
_UNET = {
    "block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4, "cross_attention_dim": 16,
    "attention_head_dim": 4, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
}  # fmt: skip


def filled(model: Any) -> Any:
    """Fill the parameters that are zeros, which hide what comes before them, at random."""
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return model


@CASES("diffusers", "UNet2DConditionModel", "unet")
@CASES("diffusers", "ControlNetModel", "control")
def diffusers_unet(name: str) -> LibraryModel:
    """Return a network of latent images, a time and a text, whose sides are even."""
    import diffusers

    if name == "unet":
        model: Any = diffusers.UNet2DConditionModel(**_UNET, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    else:
        model = filled(diffusers.ControlNetModel(**_UNET, conditioning_embedding_out_channels=(8, 16)))

    def call(n: int, h: int, w: int, t: int) -> tuple[torch.Tensor, ...]:
        given = (torch.randn(n, 4, h, w), torch.randint(0, 1000, (n,)), torch.randn(n, t, 16))
        return given if name == "unet" else (*given, torch.rand(n, 3, 2 * h, 2 * w))

    axes = ({0: "n", 2: "h", 3: "w"}, {0: "n"}, {0: "n", 1: "t"}, *([] if name == "unet" else [{0: "n", 2: "h2", 3: "w2"}]))
    return LibraryModel(model.eval(), call(2, 16, 24, 7), axes, [call(1, 24, 16, 12), call(3, 32, 32, 5)])


@CASES("diffusers", "AutoencoderKL", "kl")
@CASES("diffusers", "AutoencoderTiny", "tiny")
@CASES("diffusers", "VQModel", "vq")
@CASES("diffusers", "AutoencoderDC", "dc")
def diffusers_autoencoder(name: str) -> LibraryModel:
    """Return an autoencoder of images."""
    import diffusers

    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    layers = {**blocks, "block_out_channels": (8, 16), "norm_num_groups": 4}
    deep = {f"{part}coder_{key}": value for part in ("en", "de") for key, value in {
        "block_types": ("ResBlock", "EfficientViTBlock"), "block_out_channels": (16, 32), "layers_per_block": (1, 1),
    }.items()}  # fmt: skip
    scales = {"encoder_qkv_multiscales": ((), (5,)), "decoder_qkv_multiscales": ((), (5,))}
    made: dict[str, Any] = {
        "kl": lambda: diffusers.AutoencoderKL(**layers),
        "tiny": lambda: diffusers.AutoencoderTiny(
            encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
        ),
        "vq": lambda: diffusers.VQModel(**layers, num_vq_embeddings=32),
        "dc": lambda: diffusers.AutoencoderDC(latent_channels=4, attention_head_dim=8, **deep, **scales),
    }  # fmt: skip
    return images(made[name](), (2, 32, 48), (1, 48, 32), (3, 64, 64))


@CASES("diffusers", "FluxTransformer2DModel")
def diffusers_flux() -> LibraryModel:
    """Return a transformer of packed latents and a text."""
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=32, axes_dims_rope=(4, 4, 8),
    ).eval()  # fmt: skip

    def call(n: int, s: int, t: int) -> tuple[torch.Tensor, ...]:
        given = torch.randn(n, s, 4), torch.randn(n, t, 32), torch.randn(n, 32), torch.rand(n)
        return *given, torch.randint(0, 8, (s, 3)).float(), torch.zeros(t, 3)

    axes = ({0: "n", 1: "s"}, {0: "n", 1: "t"}, {0: "n"}, {0: "n"}, {0: "s"}, {0: "t"})
    return LibraryModel(model, call(2, 24, 7), axes, [call(1, 16, 12), call(3, 40, 5)])


@CASES("diffusers", "SD3Transformer2DModel", "sd3")
@CASES("diffusers", "PixArtTransformer2DModel", "pixart")
@CASES("diffusers", "WanTransformer3DModel", "wan")
def diffusers_transformer(name: str) -> LibraryModel:
    """Return a transformer of latent images or videos, a time and a text."""
    import diffusers

    heads = {"num_attention_heads": 2, "attention_head_dim": 12, "num_layers": 2}
    made: dict[str, Any] = {
        "sd3": lambda: diffusers.SD3Transformer2DModel(
            **heads, sample_size=32, in_channels=4, out_channels=4, joint_attention_dim=16, caption_projection_dim=24,
            pooled_projection_dim=16, pos_embed_max_size=32, qk_norm="rms_norm",
        ),
        "pixart": lambda: diffusers.PixArtTransformer2DModel(
            **heads, sample_size=16, in_channels=4, out_channels=8, cross_attention_dim=24, caption_channels=16,
        ),
        "wan": lambda: diffusers.WanTransformer3DModel(
            **heads, in_channels=4, out_channels=4, text_dim=16, freq_dim=16, ffn_dim=32, rope_max_seq_len=64,
        ),
    }  # fmt: skip

    def call(n: int, h: int, w: int, t: int) -> tuple[torch.Tensor, ...]:
        picture = torch.randn(n, 4, 3 + n, h, w) if name == "wan" else torch.randn(n, 4, h, w)
        text, time = torch.randn(n, t, 16), torch.randint(0, 1000, (n,))
        if name == "sd3":
            return picture, text, torch.randn(n, 16), time
        return (picture, time, text) if name == "wan" else (picture, text, time)

    sized, text = {0: "n", 2: "h", 3: "w"}, {0: "n", 1: "t"}
    axes: Any = (sized, text, {0: "n"}) if name == "pixart" else (sized, text, {0: "n"}, {0: "n"})
    if name == "wan":
        axes = ({0: "n", 2: "f", 3: "h", 4: "w"}, {0: "n"}, text)
    return LibraryModel(made[name]().eval(), call(2, 16, 24, 7), axes, [call(1, 24, 16, 12), call(3, 32, 32, 5)])


_SWIN = {"embed_dim": 12, "depths": [2, 2], "num_heads": [2, 2], "window_size": 8}
_SHUFFLE = {"upscale": 2, "upsampler": "pixelshuffle"}
_GRL = {"embed_dim": 12, "window_size": 8, "depths": [2], "num_heads_window": [1], "num_heads_stripe": [1]}
_DEEP = {"embed_dim": 32, "depth": [2, 2], "num_heads": [2, 2]}


@CASES("spandrel", "SwinIR", "SwinIR", {**_SWIN, **_SHUFFLE})
@CASES("spandrel", "Swin2SR", "Swin2SR", {**_SWIN, **_SHUFFLE})
@CASES("spandrel", "HAT", "HAT", {**_SWIN, "upscale": 2, "num_feat": 8, "compress_ratio": 3, "squeeze_factor": 6})
@CASES("spandrel", "DRCT", "DRCT", {**_SWIN, **_SHUFFLE, "gc": 4})
@CASES("spandrel", "ATD", "ATD", {**_SWIN, **_SHUFFLE, "category_size": 64, "num_tokens": 8})
@CASES("spandrel", "GRL", "GRL", {**_SHUFFLE, **_GRL})
@CASES("spandrel", "DAT", "DAT", {**_DEEP, "split_size": [4, 8], "upscale": 2})
@CASES("spandrel", "RGT", "RGT", {**_DEEP, "split_size": [8, 8], "upscale": 2})
@CASES("spandrel", "ESRGAN", "ESRGAN", {"num_filters": 8, "num_blocks": 2, "scale": 2})
@CASES("spandrel", "ESRGAN, shuffled", "ESRGAN", {"in_nc": 12, "num_filters": 8, "num_blocks": 2, "shuffle_factor": 2})
@CASES("spandrel", "SPAN", "SPAN", {"num_in_ch": 3, "num_out_ch": 3, "feature_channels": 8})
@CASES("spandrel", "Compact", "Compact", {"num_feat": 8, "num_conv": 3})
@CASES("spandrel", "SCUNet", "SCUNet", {"config": [1] * 7, "dim": 64})
@CASES("spandrel", "OmniSR", "OmniSR", {"num_feat": 16, "up_scale": 2})
@CASES("spandrel", "PLKSR", "PLKSR", {"dim": 16, "n_blocks": 2, "upscaling_factor": 2})
@CASES("spandrel", "SAFMN", "SAFMN", {"dim": 16, "n_blocks": 2, "upscaling_factor": 2})
@CASES("spandrel", "NAFNet", "NAFNet", {"width": 8, "enc_blk_nums": [1, 1], "dec_blk_nums": [1, 1]})
@CASES("spandrel", "FFTformer", "FFTformer", {"dim": 8, "num_blocks": [1, 1, 1], "num_refinement_blocks": 1})
@CASES("spandrel", "MixDehazeNet", "MixDehazeNet", {"embed_dims": [8, 16, 32, 16, 8]})
@CASES("spandrel", "DITN", "DITN", {"dim": 12, "ITL_blocks": 1, "SAL_blocks": 1, "upscale": 2})
@CASES("spandrel", "RetinexFormer", "RetinexFormer", {"n_feat": 8, "stage": 1})
@CASES("spandrel", "FDAT", "FDAT", {"embed_dim": 16, "num_groups": 1, "scale": 2, "mid_dim": 8})
@CASES("spandrel", "RealCUGAN", "RealCUGAN", {}, "UpCunet2x")
def spandrel(library: str, options: dict[str, Any], name: str = "") -> LibraryModel:
    """Return a network that enlarges or restores images."""
    import importlib

    model = getattr(importlib.import_module(f"spandrel.architectures.{library}"), name or library)(**options)
    if library in ("SCUNet", "FFTformer", "MixDehazeNet", "DRCT", "RetinexFormer"):  # sides of whole windows
        return images(filled(model), (2, 96, 64), (1, 64, 128), (3, 128, 96))
    return images(filled(model), (2, 44, 36), (1, 32, 64), (3, 38, 54))


@CASES("pytorch-tabnet", "TabNet with sparsemax and embeddings", "sparsemax")
@CASES("pytorch-tabnet", "TabNet with entmax and embeddings", "entmax")
def tabnet(mask: str) -> LibraryModel:
    """Return a network for tables with columns of numbers and of categories."""
    from pytorch_tabnet.tab_network import TabNet

    kinds = {"cat_idxs": [1, 4], "cat_dims": [5, 7], "cat_emb_dim": [2, 3], "group_attention_matrix": torch.eye(6)}
    model = TabNet(6, 3, mask_type=mask, **kinds).eval()
    calls = [(torch.cat([torch.randint(0, 5, (n, 5)), torch.randn(n, 1)], 1),) for n in (5, 1, 33)]
    return LibraryModel(model, calls[0], ({0: "n"},), calls[1:])


@CASES("chronos-forecasting", "Chronos-Bolt")
def chronos() -> LibraryModel:
    """Return a forecaster of series with gaps, of any length."""
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    bolt = {"context_length": 64, "prediction_length": 8, "input_patch_size": 8, "input_patch_stride": 8, "quantiles": [0.1, 0.5]}
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
    sizes |= {"vocab_size": 2, "decoder_start_token_id": 0, "use_cache": False, "chronos_config": bolt}
    model = ChronosBoltModelForForecasting(T5Config(**sizes)).eval()
    calls = [(torch.randn(size).masked_fill(torch.rand(size) < 0.2, torch.nan),) for size in ((2, 21), (1, 19), (3, 50))]
    return LibraryModel(model, calls[0], ({0: "n", 1: "t"},), calls[1:])


@CASES("neuralforecast", "NHITS", "NHITS", {"n_freq_downsample": [2, 1, 1], "mlp_units": 3 * [[16, 16]]})
@CASES("neuralforecast", "TFT", "TFT", {"hidden_size": 16, "n_head": 2})
@CASES("neuralforecast", "PatchTST", "PatchTST", {"hidden_size": 16, "n_heads": 2, "patch_len": 4, "stride": 2})
@CASES("neuralforecast", "TiDE", "TiDE", {"hidden_size": 16})
def neuralforecast(name: str, options: dict[str, Any]) -> LibraryModel:
    """Return a forecaster of windows of one length."""
    from neuralforecast import models

    model, others = getattr(models, name)(h=4, input_size=24, **options), dict.fromkeys(("futr_exog", "hist_exog", "stat_exog"))

    class Windows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, y: torch.Tensor, mask: torch.Tensor) -> Any:
            return self.model({**others, "insample_y": y, "insample_mask": mask})

    calls = [(torch.randn(n, 24, 1), (torch.rand(n, 24, 1) > 0.2).float()) for n in (2, 1, 5)]
    return LibraryModel(Windows().eval(), calls[0], ({0: "n"}, {0: "n"}), calls[1:])


@CASES("tsai", "InceptionTime", "InceptionTime", {"nf": 4}, (36, 50))
@CASES("tsai", "XceptionTime", "XceptionTime", {"nf": 4}, (36, 50))
@CASES("tsai", "ResNet", "ResNet", {}, (36, 50))
@CASES("tsai", "TST", "TST", {"seq_len": 36, "d_model": 16, "n_heads": 2, "d_ff": 16}, (36, 36))
@CASES("tsai", "TSiTPlus", "TSiTPlus", {"seq_len": 36, "d_model": 16, "n_heads": 2}, (36, 36))
@CASES("tsai", "PatchTST", "PatchTST", {"seq_len": 36, "d_model": 16, "n_heads": 2, "patch_len": 8, "stride": 4}, (36, 36))
@CASES("tsai", "LSTM_FCN", "LSTM_FCN", {"seq_len": 36, "hidden_size": 8, "conv_layers": [8, 8, 8]}, (36, 36))
@CASES("tsai", "MiniRocket's features", "MINIROCKET", {}, (36, 36))
def tsai(name: str, options: dict[str, Any], lengths: tuple[int, int]) -> LibraryModel:
    """Return a network for series of 3 channels: of any length, if the lengths differ."""
    from tsai.models import all as models
    from tsai.models.MINIROCKET_Pytorch import MiniRocketFeatures

    if name == "MINIROCKET":
        model: Any = MiniRocketFeatures(3, 36, 168)
        model.fit(torch.randn(20, 3, 36))
    else:
        model = getattr(models, name)(c_in=3, c_out=4, **options)
    axes = {0: "n", **({2: "t"} if lengths[0] != lengths[1] else {})}
    calls = [(torch.randn(n, 3, lengths[n != 2]),) for n in (2, 1, 5)]
    return LibraryModel(model.eval(), calls[0], (axes,), calls[1:])


@CASES("pytorch-forecasting", "TemporalFusionTransformer", "TemporalFusionTransformer", {"hidden_size": 8})
@CASES("pytorch-forecasting", "NHiTS", "NHiTS", {"hidden_size": 8})
@CASES("pytorch-forecasting", "NBeats", "NBeats", {"widths": [8, 8], "backcast_loss_ratio": 0.0})
@CASES("pytorch-forecasting", "RecurrentNetwork", "RecurrentNetwork", {"hidden_size": 8})
@CASES("pytorch-forecasting", "TiDEModel", "TiDEModel", {"hidden_size": 8})
def pytorch_forecasting(name: str, options: dict[str, Any]) -> LibraryModel:
    """Return a network of a data set's batches."""
    import numpy
    import pandas
    import pytorch_forecasting

    times, values = numpy.tile(numpy.arange(40), 4), numpy.random.default_rng(0).normal(size=160)
    frame = pandas.DataFrame({"time": times, "group": numpy.repeat(list("abcd"), 40), "value": values})
    data = pytorch_forecasting.TimeSeriesDataSet(
        frame, "time", "value", ["group"], min_encoder_length=12, max_encoder_length=12, max_prediction_length=4,
        time_varying_unknown_reals=["value"], time_varying_known_reals=[] if name == "NBeats" else ["time"],
    )  # fmt: skip
    model = getattr(pytorch_forecasting, name).from_dataset(data, **options)
    names = ("encoder_cont", "decoder_cont", "encoder_target", "encoder_lengths", "decoder_lengths", "target_scale")

    class Batch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, past: Any, coming: Any, target: Any, lengths: Any, more: Any, scale: Any) -> Any:
            batch = dict(zip(names, (past, coming, target, lengths, more, scale), strict=True))
            return self.model({**batch, "encoder_cat": past[..., :0].long(), "decoder_cat": coming[..., :0].long()})["prediction"]

    batches = [next(iter(data.to_dataloader(train=False, batch_size=n)))[0] for n in (3, 1, 7)]
    calls = [tuple(batch[name] for name in names) for batch in batches]
    return LibraryModel(Batch().eval(), calls[0], ({0: "n"},) * 6, calls[1:])


@CASES("sentence-transformers", "a SentenceTransformer of BERT, with a mean", "mean")
@CASES("sentence-transformers", "a SentenceTransformer of BERT, with a head", "head")
def sentence_transformers(kind: str) -> LibraryModel:
    """Return an encoder of sentences, as a module of tokens and their mask."""
    import tempfile

    import sentence_transformers
    from sentence_transformers import models
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    sizes: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40}
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk")}
    with tempfile.TemporaryDirectory() as folder:
        words = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2}, special["unk_token"]))
        fast: Any = PreTrainedTokenizerFast
        fast(tokenizer_object=words, **special).save_pretrained(folder)
        BertModel(BertConfig(**sizes)).save_pretrained(folder)
        parts = [models.Transformer(folder), models.Pooling(32, pooling_mode="mean" if kind == "mean" else "cls")]
    parts += [models.Dense(32, 16), models.Normalize()] if kind == "head" else []
    encoder = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")

    class Sentences(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.encoder({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]

    def call(n: int, t: int) -> tuple[torch.Tensor, ...]:
        return torch.randint(0, 40, (n, t)), (torch.arange(t) < torch.arange(t, t - n, -1)[:, None]).long()

    return LibraryModel(Sentences().eval(), call(2, 9), ({0: "n", 1: "t"},) * 2, [call(1, 5), call(3, 17)])


@CASES("efficientnet-pytorch", "efficientnet-b0", "efficientnet")
@CASES("geffnet", "efficientnet_lite0", "geffnet")
@CASES("super-image", "EDSR", "edsr")
@CASES("super-image", "MSRN", "msrn")
@CASES("super-image", "PAN", "pan")
@CASES("super-image", "CARN", "carn")
@CASES("super-image", "A2N", "a2n")
@CASES("facexlib", "RetinaFace", "retina")
@CASES("facexlib", "ParseNet", "parse")
@CASES("facexlib", "BiSeNet", "bise")
def pictures(name: str) -> LibraryModel:
    """Return a network of images."""
    from importlib import import_module

    small = {"n_feats": 8}
    enlarge: Any = {"edsr": {**small, "n_resblocks": 2}, "msrn": {**small, "n_blocks": 2}, "pan": {}, "carn": {}, "a2n": {}}
    if name in enlarge:
        models = import_module("super_image")
        config, model = (getattr(models, f"{name.capitalize()}{part}") for part in ("Config", "Model"))
        return images(model(config(scale=2, **enlarge[name])), (2, 24, 32), (1, 32, 20), (3, 19, 25))
    made: dict[str, Any] = {
        "efficientnet": lambda: import_module("efficientnet_pytorch").EfficientNet.from_name("efficientnet-b0"),
        "geffnet": lambda: import_module("geffnet").create_model("efficientnet_lite0", pretrained=False),
        "retina": lambda: import_module("facexlib.detection.retinaface").RetinaFace("mobile0.25", device="cpu"),
        "parse": lambda: import_module("facexlib.parsing.parsenet").ParseNet(64, 64, 16, base_ch=32),
        "bise": lambda: import_module("facexlib.parsing.bisenet").BiSeNet(5),
    }
    return images(made[name](), (2, 64, 96), (1, 96, 64), (3, 128, 128))


@CASES("ctgan", "CTGAN's generator", "generator")
@CASES("ctgan", "CTGAN's discriminator", "discriminator")
@CASES("ctgan", "TVAE's encoder", "encoder")
def ctgan(name: str) -> LibraryModel:
    """Return a network for rows of tables."""
    from ctgan.synthesizers import ctgan, tvae

    made: Any = {"generator": (ctgan.Generator, 10), "discriminator": (ctgan.Discriminator, 5), "encoder": (tvae.Encoder, 4)}
    model = made[name][0](8, (16, 16), made[name][1])
    return LibraryModel(model.eval(), (torch.randn(10, 8),), ({0: "n"},), [(torch.randn(n, 8),) for n in (5, 35)])


@CASES("e3nn", "Convolution of v2106, with spherical harmonics", limit=400)
def e3nn() -> LibraryModel:
    """Return a layer of places of atoms and the edges between them."""
    from e3nn.nn.models.v2106.points_convolution import Convolution
    from e3nn.o3 import SphericalHarmonics

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.harmonics = SphericalHarmonics("1x0e + 1x1o + 1x2e", True, normalization="component")
            self.convolution = Convolution("4x0e + 2x1o", "2x0e", "1x0e + 1x1o + 1x2e", "4x0e + 2x1o", [1, 8], 3.0)

        def forward(self, places: torch.Tensor, features: torch.Tensor, kinds: torch.Tensor, edges: torch.Tensor) -> Any:
            steps = places[edges[1]] - places[edges[0]]
            return self.convolution(features, kinds, edges[0], edges[1], self.harmonics(steps), steps.norm(dim=1, keepdim=True))

    def call(n: int, e: int) -> tuple[torch.Tensor, ...]:
        begin = torch.randint(0, n, (e,))
        edges = torch.stack([begin, (begin + torch.randint(1, n, (e,))) % n])
        return torch.randn(n, 3), torch.randn(n, 10), torch.randn(n, 2), edges

    axes = ({0: "nodes"}, {0: "nodes"}, {0: "nodes"}, {1: "edges"})
    return LibraryModel(Layer().eval(), call(5, 12), axes, [call(9, 20), call(3, 4)])


@CASES("pytorch-metric-learning", "TripletMarginLoss", "TripletMarginLoss", {})
@CASES("pytorch-metric-learning", "ContrastiveLoss", "ContrastiveLoss", {})
@CASES("pytorch-metric-learning", "NTXentLoss", "NTXentLoss", {})
@CASES("pytorch-metric-learning", "SupConLoss", "SupConLoss", {})
@CASES("pytorch-metric-learning", "CircleLoss", "CircleLoss", {})
@CASES("pytorch-metric-learning", "MultiSimilarityLoss", "MultiSimilarityLoss", {})
@CASES("pytorch-metric-learning", "ArcFaceLoss", "ArcFaceLoss", {"num_classes": 3, "embedding_size": 8})
@CASES("pytorch-metric-learning", "ProxyAnchorLoss", "ProxyAnchorLoss", {"num_classes": 3, "embedding_size": 8})
def metric_learning(name: str, options: dict[str, Any]) -> LibraryModel:
    """Return a loss of embeddings and labels."""
    from pytorch_metric_learning import losses

    calls = [(torch.randn(n, 8), torch.arange(n) % 3) for n in (8, 6, 13)]
    return LibraryModel(getattr(losses, name)(**options).eval(), calls[0], ({0: "n"}, {0: "n"}), calls[1:])


@CASES("tensordict", "TensorDictSequential")
def tensordict() -> LibraryModel:
    """Return a policy of modules that share a dictionary, called with tensors."""
    from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential

    common = TensorDictModule(torch.nn.Linear(6, 8), in_keys=["observation"], out_keys=["hidden"])
    heads = torch.nn.Sequential(torch.nn.Linear(8, 4), NormalParamExtractor())
    policy = TensorDictModule(heads, in_keys=["hidden"], out_keys=["loc", "scale"])
    value = TensorDictModule(torch.nn.Linear(8, 1), in_keys=["hidden"], out_keys=["value"])
    model = TensorDictSequential(common, policy, value).eval()
    return LibraryModel(model, (torch.randn(4, 6),), ({0: "n"},), [(torch.randn(n, 6),) for n in (1, 9)])
