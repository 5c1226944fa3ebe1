"""Small configurations of causal language models, by architecture."""

from __future__ import annotations

from typing import Any

import torch
import transformers

TOKENS = {"vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
COMMON: dict[str, Any] = TOKENS | {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}  # fmt: skip
GPT = TOKENS | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
HEADS = COMMON | {"head_dim": 8}
SLIDING = HEADS | {"sliding_window": 6}
"""The window is shorter than the texts of the tests."""
MOE = HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LOCAL_MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
DEEPSEEK = COMMON | {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
    "topk_group": 1,
}  # fmt: skip
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 4}

CAUSAL: dict[str, dict[str, Any]] = {
    "Bamba": COMMON | MAMBA | {"attn_layer_indices": [1]},
    "Bloom": TOKENS | {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Cohere": COMMON,
    "Cohere2": SLIDING,
    "DeepseekV2": DEEPSEEK | {"n_routed_experts": 4, "n_group": 1},
    "DeepseekV3": DEEPSEEK | {"n_routed_experts": 8, "n_group": 2},
    "Exaone4": SLIDING,
    "Falcon": COMMON | {"alibi": False},
    "FalconH1": HEADS | MAMBA | {"mamba_n_heads": 4, "mamba_d_ssm": 32},
    "GPT2": GPT,
    "GPTBigCode": GPT,
    "GPTJ": GPT | {"rotary_dim": 4},
    "GPTNeoX": COMMON,
    "Gemma": HEADS,
    "Gemma2": SLIDING | {"query_pre_attn_scalar": 8},
    "Gemma3Text": SLIDING | {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "Glm": HEADS,
    "GptOss": SLIDING | LOCAL_MOE,
    "Granite": COMMON,
    "Jamba": COMMON
    | {
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_dt_rank": 4,
    },
    "Lfm2": COMMON | {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
    "Llama": COMMON,
    "Llama4Text": HEADS
    | {
        "num_local_experts": 2, "intermediate_size_mlp": 64, "num_hidden_layers": 4, "attention_chunk_size": 8,
        "interleave_moe_layer_step": 2, "layer_types": ["chunked_attention", "full_attention"] * 2,
    },
    "Mamba": COMMON | {"state_size": 8, "time_step_rank": 4},
    "Mamba2": COMMON | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    "Mistral": SLIDING,
    "Mixtral": COMMON | LOCAL_MOE,
    "Mpt": TOKENS | {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128},
    "OPT": COMMON | {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "Olmo": COMMON,
    "Olmo2": COMMON,
    "Phi": COMMON,
    "Phi3": COMMON | {"sliding_window": 6},
    "Qwen2": COMMON,
    "Qwen2Moe": MOE | {"shared_expert_intermediate_size": 32},
    "Qwen3": HEADS,
    "Qwen3Moe": MOE,
    "Qwen3Next": MOE
    | {
        "num_hidden_layers": 4, "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
    "RecurrentGemma": HEADS | {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8},
    "Rwkv": COMMON | {"attention_hidden_size": 32, "context_length": 128},
    "SmolLM3": COMMON,
    "StableLm": COMMON,
    "Starcoder2": COMMON | {"sliding_window": 6},
}  # fmt: skip


def causal_model(name: str) -> Any:
    """Build a model in evaluation mode whose weights are no initial zeros or ones."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**CAUSAL[name])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dtype.is_floating_point:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model
