"""Small configurations of models of speech."""

from __future__ import annotations

from typing import Any

import transformers as hf

from .architecture import Architecture
from .encoder_decoder_configs import BART

BASE: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "initializer_range": 0.2,
}
WAVES: dict[str, Any] = BASE | {
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
SOURCES: dict[str, Any] = {name: value for name, value in BART.items() if name != "max_position_embeddings"} | {
    "max_target_positions": 64
}
TASK = "automatic-speech-recognition"
SIZES = ({"batch": 3, "frames": 5013, "target": 9}, {"batch": 1, "frames": 2990, "target": 3})
FEATURES = ({"batch": 3, "frames": 131, "target": 9}, {"batch": 1, "frames": 62, "target": 3})
BATCHES = ({"batch": 3, "target": 9}, {"batch": 1, "target": 3})


ARCHITECTURES = [
    Architecture("wav2vec 2.0", TASK, lambda: hf.Wav2Vec2Config(**WAVES), SIZES, quick=True),
    Architecture(
        "wav2vec 2.0, layer normalization",
        TASK,
        lambda: hf.Wav2Vec2Config(**WAVES, feat_extract_norm="layer", do_stable_layer_norm=True),
        SIZES,
    ),
    Architecture("wav2vec 2.0", "feature-extraction", lambda: hf.Wav2Vec2Config(**WAVES), SIZES),
    Architecture("Wav2Vec2-BERT", TASK, lambda: hf.Wav2Vec2BertConfig(**BASE, feature_projection_input_dim=16), FEATURES),
    Architecture("Wav2Vec2-Conformer", TASK, lambda: hf.Wav2Vec2ConformerConfig(**WAVES), SIZES),
    Architecture("HuBERT", TASK, lambda: hf.HubertConfig(**WAVES), SIZES),
    Architecture("WavLM", TASK, lambda: hf.WavLMConfig(**WAVES, num_buckets=16, max_bucket_distance=32), SIZES),
    Architecture("UniSpeech", TASK, lambda: hf.UniSpeechConfig(**WAVES), SIZES),
    Architecture("UniSpeechSat", TASK, lambda: hf.UniSpeechSatConfig(**WAVES), SIZES),
    Architecture(
        "Data2VecAudio",
        TASK,
        lambda: hf.Data2VecAudioConfig(**WAVES | {"num_conv_pos_embeddings": 2}, conv_pos_kernel_size=5),
        SIZES,
    ),
    Architecture(
        "SEW",
        TASK,
        lambda: hf.SEWConfig(**WAVES, squeeze_factor=2),
        SIZES,
        fails="the model branches in Python on which of two computed lengths is shorter, as a warning says",
    ),
    Architecture(
        "SEW-D",
        TASK,
        lambda: hf.SEWDConfig(**WAVES, squeeze_factor=2, position_buckets=8, max_position_embeddings=64),
        SIZES,
        fails="the model branches in Python on which of two computed lengths is shorter, as a warning says",
    ),
    Architecture("Whisper", TASK, lambda: hf.WhisperConfig(**SOURCES, num_mel_bins=8, max_source_positions=20), BATCHES),
    Architecture(
        "Speech2Text",
        TASK,
        lambda: hf.Speech2TextConfig(**SOURCES, input_feat_per_channel=8, conv_channels=16, max_source_positions=200),
        FEATURES,
    ),
    Architecture(
        "Moonshine",
        TASK,
        lambda: hf.MoonshineConfig(
            vocab_size=99,
            hidden_size=32,
            intermediate_size=40,
            encoder_num_hidden_layers=2,
            decoder_num_hidden_layers=2,
            encoder_num_attention_heads=4,
            decoder_num_attention_heads=4,
            max_position_embeddings=64,
            decoder_start_token_id=1,
        ),
        SIZES,
        fails="the encoder computes the number of its frames by int() of a fraction of the samples, which fixes it",
    ),
]
