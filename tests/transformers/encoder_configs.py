"""Small configurations of encoders of text."""

from __future__ import annotations

from typing import Any

import transformers as hf

from .architecture import TEXT, Architecture

BASE: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
XLM: dict[str, Any] = {"vocab_size": 99, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
WHOLE = (*TEXT, {"batch": 2, "sequence": 16}, {"batch": 1, "sequence": 1})
"""Texts that fill windows, too."""
DEBERTA: dict[str, Any] = BASE | {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "pad_token_id": 0,
}
FILL, LABEL, TAG, ANSWER, FEATURES = (
    "fill-mask",
    "text-classification",
    "token-classification",
    "question-answering",
    "feature-extraction",
)


def _bert() -> Any:
    return hf.BertConfig(**BASE)


def _longformer() -> Any:
    return hf.LongformerConfig(**BASE | {"max_position_embeddings": 130}, attention_window=8)


def _layoutlmv3() -> Any:
    return hf.LayoutLMv3Config(
        **BASE, coordinate_size=6, shape_size=4, input_size=32, patch_size=8, max_2d_position_embeddings=128, pad_token_id=0
    )


ARCHITECTURES = [
    Architecture("BERT", FILL, _bert, quick=True),
    *(Architecture("BERT", task, _bert) for task in (LABEL, TAG, ANSWER, FEATURES)),
    Architecture("RoBERTa", FILL, lambda: hf.RobertaConfig(**BASE)),
    Architecture("XLM-RoBERTa", TAG, lambda: hf.XLMRobertaConfig(**BASE | {"type_vocab_size": 1})),
    Architecture("CamemBERT", FILL, lambda: hf.CamembertConfig(**BASE)),
    Architecture("DistilBERT", LABEL, lambda: hf.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=40)),
    Architecture("ALBERT", FILL, lambda: hf.AlbertConfig(**BASE, embedding_size=16)),
    Architecture("ELECTRA", LABEL, lambda: hf.ElectraConfig(**BASE, embedding_size=16)),
    Architecture("MPNet", FEATURES, lambda: hf.MPNetConfig(**BASE)),
    Architecture(
        "MobileBERT",
        ANSWER,
        lambda: hf.MobileBertConfig(**BASE | {"intermediate_size": 32}, embedding_size=16, intra_bottleneck_size=16),
    ),
    Architecture(
        "SqueezeBERT", LABEL, lambda: hf.SqueezeBertConfig(**BASE, embedding_size=32, q_groups=2, k_groups=2, v_groups=2)
    ),
    Architecture("ConvBERT", FILL, lambda: hf.ConvBertConfig(**BASE, embedding_size=16, conv_kernel_size=3)),
    Architecture("DeBERTa", FILL, lambda: hf.DebertaConfig(**DEBERTA, max_relative_positions=8)),
    Architecture(
        "DeBERTa-v2",
        LABEL,
        lambda: hf.DebertaV2Config(**DEBERTA, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True),
    ),
    Architecture("DeBERTa-v2", TAG, lambda: hf.DebertaV2Config(**DEBERTA, conv_kernel_size=3, conv_act="gelu")),
    Architecture(
        "ModernBERT",
        FILL,
        lambda: hf.ModernBertConfig(**BASE, local_attention=8, pad_token_id=0, cls_token_id=1, sep_token_id=2),
        quick=True,
    ),
    Architecture("Longformer", LABEL, _longformer, WHOLE),
    Architecture("Longformer", FILL, _longformer, WHOLE),
    Architecture("BigBird", FILL, lambda: hf.BigBirdConfig(**BASE, attention_type="original_full")),
    Architecture("Nyströmformer", FILL, lambda: hf.NystromformerConfig(**BASE, num_landmarks=4, segment_means_seq_len=4)),
    Architecture("FNet", FILL, lambda: hf.FNetConfig(**BASE)),
    Architecture("RoFormer", FILL, lambda: hf.RoFormerConfig(**BASE)),
    Architecture(
        "Funnel",
        LABEL,
        lambda: hf.FunnelConfig(
            vocab_size=99, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=40, num_decoder_layers=1
        ),
        fails="the model computes positions as Python numbers of the text's length, which fixes it",
    ),
    Architecture("XLNet", LABEL, lambda: hf.XLNetConfig(vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=40)),
    Architecture("XLM", FILL, lambda: hf.XLMConfig(**XLM)),
    Architecture("FlauBERT", TAG, lambda: hf.FlaubertConfig(**XLM)),
    Architecture("ESM", FILL, lambda: hf.EsmConfig(**BASE, position_embedding_type="rotary", pad_token_id=1, mask_token_id=3)),
    Architecture("ERNIE", LABEL, lambda: hf.ErnieConfig(**BASE)),
    Architecture("I-BERT", FILL, lambda: hf.IBertConfig(**BASE)),
    Architecture("Megatron-BERT", FILL, lambda: hf.MegatronBertConfig(**BASE)),
    Architecture("Data2VecText", FEATURES, lambda: hf.Data2VecTextConfig(**BASE)),
    Architecture("RemBERT", LABEL, lambda: hf.RemBertConfig(**BASE, input_embedding_size=16, output_embedding_size=24)),
    Architecture("LayoutLM", TAG, lambda: hf.LayoutLMConfig(**BASE, max_2d_position_embeddings=128)),
    Architecture("LayoutLMv3", TAG, _layoutlmv3),
    Architecture("LayoutLMv3", ANSWER, _layoutlmv3),
    Architecture(
        "LiLT", TAG, lambda: hf.LiltConfig(**BASE | {"hidden_size": 24}, max_2d_position_embeddings=128, channel_shrink_ratio=2)
    ),
    Architecture(
        "GPT-2", LABEL, lambda: hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, pad_token_id=0)
    ),
    Architecture("Llama", LABEL, lambda: hf.LlamaConfig(**BASE, num_key_value_heads=2, pad_token_id=0)),
    Architecture("T5", FEATURES, lambda: hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4)),
]
