"""Exported folders in onnxruntime-genai, ONNX Runtime's own generator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import onnxexp_transformers

onnxruntime_genai = pytest.importorskip("onnxruntime_genai", reason="it requires onnxruntime 1.31 and Python 3.11")

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101}
CONFIGS = [
    transformers.LlamaConfig(**SIZES, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64),
    transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=101, n_positions=64, eos_token_id=2, bos_token_id=1),
    transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=101),
]


def generated(folder: Path, prompt: np.ndarray[Any, Any], length: int) -> list[int]:
    """Generate greedily until the text has `length` tokens."""
    model = onnxruntime_genai.Model(str(folder))
    parameters = onnxruntime_genai.GeneratorParams(model)
    parameters.set_search_options(max_length=length, do_sample=False)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens(prompt.astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_it_generates_the_same(config: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    onnxexp_transformers.export(model, "text-generation", tmp_path / "out")
    prompt = np.array([[5, 6, 7]])
    tokens = generated(tmp_path / "out", prompt, 15)
    ours = onnxexp_transformers.generate(tmp_path / "out", prompt, max_new_tokens=12)[0].tolist()
    assert tokens == ours[: len(tokens)] and len(tokens) > 3


def test_a_cache_that_it_does_not_have(tmp_path: Path) -> None:
    config = transformers.MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=101, state_size=4)
    onnxexp_transformers.export(config, "text-generation", tmp_path / "out")
    assert not (tmp_path / "out" / "genai_config.json").exists()
    static = {"cache": "static", "max_length": 16}
    onnxexp_transformers.export(CONFIGS[0], "text-generation", tmp_path / "static", task_options=static)
    assert not (tmp_path / "static" / "genai_config.json").exists()
    described = {"eos_token_id", "pad_token_id", "context_length", "decoder"}
    onnxexp_transformers.export(CONFIGS[0], "text-generation", tmp_path / "past")
    assert described <= json.loads((tmp_path / "past" / "genai_config.json").read_text())["model"].keys()
