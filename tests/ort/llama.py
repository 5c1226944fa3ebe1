"""A small Llama whose cache is a tuple of tensors, and its example inputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import onnxexp

LAYERS, HEADS, WIDTH, WORDS = 2, 2, 16, 50
CACHE = {0: "batch", 2: "past"}
AXES = ({0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, ((CACHE, CACHE),) * LAYERS)
"""The dynamic axes of `inputs`."""


class Cached(torch.nn.Module):
    """Return the logits, and the keys and values of each layer."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: Any) -> Any:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        result = self.model(input_ids, attention_mask, None, cache, use_cache=True)  # the cache's name depends on the version
        return result.logits, tuple((layer.keys, layer.values) for layer in cache.layers)


def llama(**changes: Any) -> Cached:
    """Make a Llama of random weights; its attention has grouped keys and values."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": HEADS}
    config = LlamaConfig(**{"vocab_size": WORDS, "num_hidden_layers": LAYERS, **sizes, **changes})
    model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.05
    return Cached(model)


def inputs(batch: int, length: int, past: int, padded: bool = False, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    """Make ids, a mask, and a past.

    Where `padded`, each row has more padding on its left.
    """
    mask = torch.ones(batch, past + length, dtype=torch.int64)
    for row in range(batch if padded else 0):
        mask[row, : min(row + 1, past + length - 1)] = 0
    cache = [torch.randn(batch, HEADS, past, WIDTH, dtype=dtype) for _ in range(2 * LAYERS)]
    return torch.randint(WORDS, (batch, length)), mask, tuple(zip(cache[::2], cache[1::2], strict=True))


def compare(program: onnxexp.ONNXProgram, model: Cached, given: tuple[Any, ...], tolerance: float = 1e-4) -> None:
    """Raise AssertionError where ONNX Runtime and eager differ."""
    with torch.no_grad():
        expected = model(*given)
    torch.testing.assert_close(program(*given), expected, rtol=tolerance, atol=tolerance)


def operators(program: onnxexp.ONNXProgram) -> Counter[str]:
    """Count the operators of the model and of its branches.

    An operator of another domain is counted under its domain.
    """
    nodes = ir.traversal.RecursiveGraphIterator(program.model.graph)
    return Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
