"""Export functions and models of libraries for speech and sound."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.libraries.case import Cases, Exported, LibraryModel

ENTRY_POINTS = Cases("entry point")
MODELS = Cases("model")


def _torchaudio() -> None:
    """Import torchaudio, from its own folder, without its compiled part.

    That part is for another torch, and these cases do not need it.
    """
    sys.path.append(str(Path(sys.prefix) / "torchaudio"))
    with mock.patch.object(Path, "glob", return_value=[]):
        import torchaudio  # noqa: F401


@ENTRY_POINTS("coqui-tts", "Vits.export_onnx", {})
@ENTRY_POINTS("coqui-tts", "Vits.export_onnx, no stochastic durations", {"use_sdp": False})
def coqui(folder: Path, options: dict[str, Any]) -> Exported:
    _torchaudio()
    from TTS.tts.configs.vits_config import VitsConfig
    from TTS.tts.models.vits import Vits

    config = VitsConfig()
    sizes = {"hidden_channels": 16, "hidden_channels_ffn_text_encoder": 32, "num_layers_text_encoder": 2, "num_chars": 40}
    sizes |= {"num_layers_flow": 1, "num_layers_posterior_encoder": 1, "upsample_initial_channel_decoder": 32}
    config.model_args.update(sizes | options)
    model, file = Vits.init_from_config(config).eval(), folder / "model.onnx"
    model.export_onnx(str(file), verbose=False)

    def eager(text: torch.Tensor, lengths: torch.Tensor, scales: torch.Tensor) -> Any:
        model.inference_noise_scale, model.length_scale, model.inference_noise_scale_dp = scales
        given = {"x_lengths": lengths, "d_vectors": None, "speaker_ids": None, "language_ids": None, "durations": None}
        return model.inference(text, given)["model_outputs"]

    return Exported(file, eager, _texts((1, 100), (1, 37), (2, 23)))


def _texts(*sizes: tuple[int, int]) -> list[tuple[torch.Tensor, ...]]:
    """Return texts, their lengths, and the scales of VITS: no noise, so that the result is no matter of chance."""
    scales = torch.tensor([0.0, 1.3, 0.0])
    return [(torch.randint(1, 40, size), torch.tensor([size[1], size[1] - 5][: size[0]]), scales) for size in sizes]


@ENTRY_POINTS("piper-tts", "piper.train.export_onnx")
def piper(folder: Path) -> Exported:
    _torchaudio()
    import lightning
    from piper.train import export_onnx
    from piper.train.vits.lightning import VitsModel

    sizes = {"inter_channels": 16, "hidden_channels": 16, "filter_channels": 32, "upsample_initial_channel": 32}
    model = VitsModel(num_symbols=40, n_layers=2, **sizes)
    state = {"state_dict": model.state_dict(), "hyper_parameters": {"num_symbols": 40, "n_layers": 2, **sizes}}
    checkpoint, file = folder / "model.ckpt", folder / "model.onnx"
    torch.save({**state, "pytorch-lightning_version": lightning.__version__}, checkpoint)
    with mock.patch.object(sys, "argv", ["export_onnx", "--checkpoint", str(checkpoint), "--output-file", str(file)]):
        export_onnx.main()
    speaker = model.model_g.eval()

    def eager(text: torch.Tensor, lengths: torch.Tensor, scales: torch.Tensor) -> Any:
        named = {"noise_scale": scales[0], "length_scale": scales[1], "noise_scale_w": scales[2]}
        return speaker.infer(text, lengths, **named)[0].unsqueeze(1)

    return Exported(file, eager, _texts((1, 50), (1, 37), (2, 23)))


@ENTRY_POINTS("deepfilternet", "export_impl of the encoder", "enc")
@ENTRY_POINTS("deepfilternet", "export_impl of the decoder of bands", "erb_dec")
@ENTRY_POINTS("deepfilternet", "export_impl of the decoder of filters", "df_dec")
def deepfilternet(folder: Path, part: str) -> Exported:
    _torchaudio()
    sys.modules["torchaudio.backend.common"] = types.ModuleType("common")  # as in the torchaudio of its time
    vars(sys.modules["torchaudio.backend.common"])["AudioMetaData"] = object
    from df.config import config
    from df.model import ModelParams, init_model
    from df.scripts.export import export_impl
    from libdf import DF

    config.use_defaults()
    p: Any = ModelParams()
    whole = init_model(DF(sr=p.sr, fft_size=p.fft_size, hop_size=p.hop_size, nb_bands=p.nb_erb)).eval()
    model, file = getattr(whole, part), folder / f"{part}.onnx"
    names: dict[str, tuple[list[str], list[str]]] = {
        "enc": (["feat_erb", "feat_spec"], ["e0", "e1", "e2", "e3", "emb", "c0", "lsnr"]),
        "erb_dec": (["emb", "e3", "e2", "e1", "e0"], ["m"]),
        "df_dec": (["emb", "c0"], ["coefs"]),
    }
    axes = {name: {1 if name in ("emb", "lsnr", "coefs") else 2: "S"} for side in names[part] for name in side}

    def call(frames: int) -> tuple[torch.Tensor, ...]:
        bands, spectrum = torch.randn(1, 1, frames, p.nb_erb), torch.randn(1, 2, frames, p.nb_df)
        e0, e1, e2, e3, embedding, c0, _ = whole.enc(bands, spectrum)
        return {"enc": (bands, spectrum), "erb_dec": (embedding, e3, e2, e1, e0), "df_dec": (embedding, c0)}[part]

    with torch.no_grad():
        calls = [call(100), call(33)]
        export_impl(str(file), model, calls[0], *names[part], axes, jit=False)  # torch.jit.script refuses it by now
    return Exported(file, model, calls)


@ENTRY_POINTS("funasr", "AutoModel.export of FSMN-VAD")
def funasr(folder: Path) -> Exported:
    _torchaudio()
    from funasr import AutoModel

    sizes = {"input_dim": 40, "input_affine_dim": 14, "fsmn_layers": 4, "linear_dim": 25, "proj_dim": 12, "lorder": 5}
    encoder = {**sizes, "rorder": 0, "lstride": 1, "rstride": 0, "output_affine_dim": 14, "output_dim": 24}
    options: dict[str, Any] = {"model_conf": {}, "encoder": "FSMN", "encoder_conf": encoder, "init_param": str(folder / "none")}
    detector = AutoModel(model="FsmnVADStreaming", device="cpu", disable_update=True, **options)
    path = detector.export(type="onnx", quantize=False)
    model = detector.model.eval()
    caches = [torch.randn(1, 12, 4, 1) for _ in range(4)]

    def eager(features: torch.Tensor, *given: torch.Tensor) -> Any:
        state = {f"cache_layer_{index}": cache for index, cache in enumerate(given)}
        scores = model.encoder(features, state)
        return scores, *state.values()

    return Exported(Path(path) / "model.onnx", eager, [(torch.randn(1, size, 40), *caches) for size in (30, 47)])


class _Method(torch.nn.Module):
    """A module of one method of another."""

    def __init__(self, model: torch.nn.Module, name: str, *more: Any) -> None:
        super().__init__()
        self.model, self.name, self.more = model, name, more

    def forward(self, *given: torch.Tensor) -> Any:
        return getattr(self.model, self.name)(*given, *self.more)


def _sounds(model: Any, *sizes: tuple[int, ...], axis: int = -1) -> LibraryModel:
    """Return a model of sounds or of their features, with dynamic batch and time; the first of `sizes` is the example."""
    calls = [(torch.randn(size),) for size in sizes]
    with torch.no_grad():
        model.eval()(*calls[0])  # weights of weight_norm have no gradient from now on, and can be copied
    return LibraryModel(model, calls[0], ({0: "n", axis % len(sizes[0]): "t"},), calls[1:])


@MODELS("openai-whisper", "the encoder", "encoder")
@MODELS("openai-whisper", "the decoder", "decoder")
@MODELS("openai-whisper", "encoder and decoder", "whole")
def whisper(part: str) -> LibraryModel:
    """Return a small Whisper, whose encoder takes one length."""
    from whisper.model import ModelDimensions, Whisper

    model = Whisper(ModelDimensions(80, 20, 32, 4, 2, 60, 16, 32, 4, 2)).eval()
    sizes = (2, 20, 5), (1, 20, 9), (3, 20, 16)
    heard = [(torch.randn(n, 80, 2 * frames),) for n, frames, _ in sizes]
    written = [(torch.randint(0, 60, (n, tokens)),) for n, _, tokens in sizes]
    if part == "encoder":
        return LibraryModel(model.encoder, heard[0], ({0: "n"},), heard[1:])
    if part == "decoder":
        calls = [(*tokens, torch.randn(len(tokens[0]), 20 + index, 32)) for index, tokens in enumerate(written)]
        return LibraryModel(model.decoder, calls[0], ({0: "n", 1: "t"}, {0: "n", 1: "frames"}), calls[1:])
    both = [(*mel, *tokens) for mel, tokens in zip(heard, written, strict=True)]
    return LibraryModel(model, both[0], ({0: "n"}, {0: "n", 1: "t"}), both[1:])


@MODELS("encodec", "the encoder", "encoder")
@MODELS("encodec", "the decoder", "decoder")
@MODELS("encodec", "the model of 24 kHz", "whole")
def encodec(part: str) -> LibraryModel:
    """Return a codec with random codes."""
    _torchaudio()
    from encodec import EncodecModel

    model = EncodecModel.encodec_model_24khz(pretrained=False).eval()
    model.set_target_bandwidth(3.0)
    for name, codes in model.quantizer.named_buffers():
        if name.endswith("embed"):
            codes.normal_()
    if part == "decoder":
        return _sounds(model.decoder, (2, 128, 9), (1, 128, 14))
    return _sounds(model.encoder if part == "encoder" else model, (2, 1, 3200), (1, 1, 2977), (3, 1, 4000))


@MODELS("vocos", "decode, of padding 'same'", "same", True)
@MODELS("vocos", "decode, of padding 'center'", "center", True)
@MODELS("vocos", "from sound to sound", "center", False)
def vocos(padding: str, decoded: bool) -> LibraryModel:
    """Return a small vocoder."""
    _torchaudio()
    from vocos import Vocos
    from vocos.feature_extractors import MelSpectrogramFeatures
    from vocos.heads import ISTFTHead
    from vocos.models import VocosBackbone

    features = MelSpectrogramFeatures(n_fft=256, hop_length=64, n_mels=20, padding=padding)
    model = Vocos(features, VocosBackbone(20, 32, 64, 2), ISTFTHead(32, 256, 64, padding))
    if decoded:
        return _sounds(_Method(model, "decode"), (2, 20, 17), (1, 20, 30))
    return _sounds(model, (2, 1600), (1, 2111))


@MODELS("snac", "SNAC with local attention", 4)
@MODELS("snac", "SNAC without attention", None)
def snac(window: int | None) -> LibraryModel:
    """Return a small codec without noise."""
    from snac import SNAC

    sizes = {"encoder_dim": 16, "encoder_rates": [2, 4], "decoder_dim": 64, "decoder_rates": [4, 2], "codebook_size": 32}
    model = SNAC(**sizes, codebook_dim=4, vq_strides=[4, 2, 1], noise=False, attn_window_size=window)
    return _sounds(model, (2, 1, 320), (1, 1, 500), (3, 1, 256))


@MODELS("descript-audio-codec", "DAC", "forward")
@MODELS("descript-audio-codec", "DAC.encode", "encode")
def dac(method: str) -> LibraryModel:
    """Return a small codec."""
    _torchaudio()
    from dac import DAC

    sizes = {"encoder_dim": 8, "encoder_rates": [2, 4], "decoder_dim": 32, "decoder_rates": [4, 2], "codebook_size": 32}
    model = DAC(**sizes, n_codebooks=3, codebook_dim=4)
    made = _sounds(model, (2, 1, 320), (1, 1, 500), (3, 1, 256))
    return made if method == "forward" else _sounds(_Method(model, method), (2, 1, 320), (1, 1, 512))


@MODELS("bigvgan", "BigVGAN of SnakeBeta", "snakebeta", "1")
@MODELS("bigvgan", "BigVGAN of Snake", "snake", "2")
def bigvgan(activation: str, block: str) -> LibraryModel:
    """Return a small vocoder."""
    _torchaudio()
    from bigvgan.bigvgan import BigVGAN
    from bigvgan.env import AttrDict

    sizes = {"num_mels": 20, "upsample_initial_channel": 32, "upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4]}
    blocks = {"resblock": block, "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5]]}
    model = BigVGAN(AttrDict({**sizes, **blocks, "activation": activation, "snake_logscale": True}))
    return _sounds(model, (2, 20, 17), (1, 20, 30))


@MODELS("demucs", "Demucs", "demucs")
@MODELS("demucs", "HDemucs", "hdemucs")
@MODELS("demucs", "HTDemucs", "htdemucs")
def demucs(name: str) -> LibraryModel:
    """Return a small model that separates sounds."""
    from demucs import demucs, hdemucs, htdemucs

    sources = ["voice", "rest"]
    if name == "demucs":
        model = demucs.Demucs(sources, channels=8, depth=3, norm_starts=2, dconv_lstm=2, dconv_attn=2)
        return _sounds(model, (2, 2, 3000), (1, 2, 4111))
    if name == "hdemucs":
        return _sounds(hdemucs.HDemucs(sources, channels=8), (2, 2, 20000), (1, 2, 30048))
    model = htdemucs.HTDemucs(sources, channels=8, t_layers=2, t_heads=2, bottom_channels=32, use_train_segment=False)
    return _sounds(model, (2, 2, 20000), (1, 2, 30048))


@MODELS("torchcrepe", "Crepe")
def torchcrepe() -> LibraryModel:
    """Return a model of pitch, of frames of 1024 samples."""
    _torchaudio()
    from torchcrepe import Crepe

    calls = [(torch.randn(size, 1024),) for size in (3, 1, 7)]
    return LibraryModel(Crepe("tiny").eval(), calls[0], ({0: "n"},), calls[1:])


@MODELS("speechbrain", "ECAPA-TDNN", False)
@MODELS("speechbrain", "ECAPA-TDNN with lengths", True)
def ecapa(lengths: bool) -> LibraryModel:
    """Return a small model of speakers."""
    _torchaudio()
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    sizes = {"lin_neurons": 12, "attention_channels": 8, "res2net_scale": 4, "se_channels": 8}
    model = ECAPA_TDNN(20, channels=[16, 16, 16, 16, 48], **sizes).eval()
    if not lengths:
        return _sounds(model, (2, 30, 20), (1, 47, 20), axis=1)
    calls = [(torch.randn(n, t, 20), torch.linspace(0.6, 1.0, n)) for n, t in ((2, 30), (3, 47))]
    return LibraryModel(model, calls[0], ({0: "n", 1: "t"}, {0: "n"}), calls[1:])


@MODELS("speechbrain", "TransformerASR.encode: a transformer", "transformer", "regularMHA")
@MODELS("speechbrain", "TransformerASR.encode: a conformer", "conformer", "RelPosMHAXL")
@MODELS("speechbrain", "TransformerASR.encode: a branchformer", "branchformer", "RelPosMHAXL")
def transformer_asr(encoder: str, attention: str) -> LibraryModel:
    """Return a small encoder of speech."""
    _torchaudio()
    from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR

    sizes = {"tgt_vocab": 20, "input_size": 24, "d_model": 32, "nhead": 4, "num_encoder_layers": 2, "d_ffn": 64}
    options = {"encoder_module": encoder, "attention_type": attention, "csgu_linear_units": 64, "kernel_size": 7}
    model = TransformerASR(**sizes, **options, num_decoder_layers=0, causal=False, normalize_before=True)
    return _sounds(_Method(model, "encode"), (2, 21, 24), (1, 34, 24), axis=1)


@MODELS("speechbrain", "CRDNN of LiGRU", "LiGRU")
@MODELS("speechbrain", "CRDNN of LSTM", "LSTM")
@MODELS("speechbrain", "CRDNN of GRU", "GRU")
def crdnn(layer: str) -> LibraryModel:
    """Return a small model of speech."""
    _torchaudio()
    from speechbrain.lobes.models.CRDNN import CRDNN
    from speechbrain.nnet import RNN

    sizes = {"cnn_channels": [4, 8], "rnn_layers": 2, "rnn_neurons": 12, "dnn_neurons": 10, "time_pooling": True}
    return _sounds(CRDNN(input_size=20, rnn_class=getattr(RNN, layer), **sizes), (2, 16, 20), (3, 27, 20), axis=1)


@MODELS("speechbrain", "Xvector")
def xvector() -> LibraryModel:
    """Return a small model of speakers."""
    _torchaudio()
    from speechbrain.lobes.models.Xvector import Xvector

    model = Xvector(tdnn_channels=[16, 16, 16, 16, 48], lin_neurons=12, in_channels=24)
    return _sounds(model, (2, 30, 24), (1, 47, 24), axis=1)


@MODELS("speechbrain", "HifiganGenerator")
def hifigan() -> LibraryModel:
    """Return a small vocoder."""
    _torchaudio()
    from speechbrain.lobes.models.HifiGAN import HifiganGenerator

    model = HifiganGenerator(20, 1, "1", [[1, 3, 5]], [3], [8, 4], 32, [4, 2])
    return _sounds(model, (2, 20, 17), (1, 20, 30))


@MODELS("pyannote.audio", "PyanNet")
def pyannote() -> LibraryModel:
    """Return a model of segmentation."""
    _torchaudio()
    from pyannote.audio.core.task import Problem, Resolution, Specifications
    from pyannote.audio.models.segmentation import PyanNet

    model = PyanNet(lstm={"hidden_size": 16}, linear={"hidden_size": 16, "num_layers": 2})
    model.specifications = Specifications(
        problem=Problem.MULTI_LABEL_CLASSIFICATION, resolution=Resolution.FRAME, duration=2.0, classes=["a", "b", "c"]
    )
    model.build()
    return _sounds(model, (2, 1, 16000), (1, 1, 24000))
