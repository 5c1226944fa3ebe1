"""Small configurations of encoder-decoders of text."""

from __future__ import annotations

from typing import Any

import transformers as hf

from .architecture import TEXT, Architecture

BART: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "init_std": 0.2,
    "decoder_start_token_id": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "forced_eos_token_id": None,
    "max_position_embeddings": 64,
}
LED: dict[str, Any] = {name: value for name, value in BART.items() if name != "max_position_embeddings"} | {
    "max_encoder_position_embeddings": 64,
    "max_decoder_position_embeddings": 64,
    "attention_window": 8,
}
T5: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
GEMMA: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "sliding_window": 6,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "query_pre_attn_scalar": 8,
}
TASK = "text2text-generation"
WHOLE = (*TEXT, {"batch": 2, "sequence": 16}, {"batch": 1, "sequence": 1, "target": 1})
"""Sources that fill windows, too."""


def _t5gemma() -> Any:
    module = hf.T5GemmaModuleConfig
    return hf.T5GemmaConfig(encoder=module(**GEMMA), decoder=module(**GEMMA, cross_attention_hidden_size=32), vocab_size=99)


ARCHITECTURES = [
    Architecture("T5", TASK, lambda: hf.T5Config(**T5), quick=True),
    Architecture("mT5", TASK, lambda: hf.MT5Config(**T5)),
    Architecture("UMT5", TASK, lambda: hf.UMT5Config(**T5)),
    Architecture(
        "LongT5",
        TASK,
        lambda: hf.LongT5Config(**T5, local_radius=3),
        WHOLE,
    ),
    Architecture(
        "Switch Transformers",
        TASK,
        lambda: hf.SwitchTransformersConfig(
            **T5, num_experts=4, expert_capacity=64, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1
        ),
    ),
    Architecture("T5Gemma", TASK, _t5gemma),
    Architecture("BART", TASK, lambda: hf.BartConfig(**BART)),
    Architecture("mBART", TASK, lambda: hf.MBartConfig(**BART)),
    Architecture("MVP", TASK, lambda: hf.MvpConfig(**BART)),
    Architecture("PLBart", TASK, lambda: hf.PLBartConfig(**BART)),
    Architecture("Pegasus", TASK, lambda: hf.PegasusConfig(**BART)),
    Architecture(
        "PEGASUS-X",
        TASK,
        lambda: hf.PegasusXConfig(**BART, block_size=4, num_global_tokens=3),
        WHOLE,
    ),
    Architecture("MarianMT", TASK, lambda: hf.MarianConfig(**BART)),
    Architecture("Blenderbot", TASK, lambda: hf.BlenderbotConfig(**BART)),
    Architecture("Blenderbot Small", TASK, lambda: hf.BlenderbotSmallConfig(**BART)),
    Architecture("M2M100", TASK, lambda: hf.M2M100Config(**BART)),
    Architecture(
        "NLLB-MOE",
        TASK,
        lambda: hf.NllbMoeConfig(**BART, num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2, expert_capacity=64),
    ),
    Architecture(
        "FSMT",
        TASK,
        lambda: hf.FSMTConfig(
            **{name: value for name, value in BART.items() if name != "vocab_size"},
            src_vocab_size=99,
            tgt_vocab_size=99,
            langs=["en", "de"],
        ),
    ),
    Architecture(
        "ProphetNet",
        TASK,
        lambda: hf.ProphetNetConfig(
            vocab_size=99,
            hidden_size=32,
            encoder_ffn_dim=40,
            num_encoder_layers=2,
            num_encoder_attention_heads=4,
            decoder_ffn_dim=40,
            num_decoder_layers=2,
            num_decoder_attention_heads=4,
            max_position_embeddings=64,
            decoder_start_token_id=1,
            ngram=2,
        ),
        fails="with a cache the decoder takes one token at a time, so that no prompt of several",
    ),
    Architecture("BigBird-Pegasus", TASK, lambda: hf.BigBirdPegasusConfig(**BART, attention_type="original_full")),
    Architecture("LED", TASK, lambda: hf.LEDConfig(**LED), WHOLE),
]
