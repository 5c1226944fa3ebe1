"""The configuration of ONNX Runtime's own generator, onnxruntime-genai."""

from __future__ import annotations

import re
from typing import Any

import onnx_ir as ir

_STATE = re.compile(r"past_key_values\.(\d+)\.(\w+)")


def genai_config(graph: ir.Graph, config: Any, generation: Any) -> dict[str, Any] | None:
    """Describe an exported decoder as ``genai_config.json`` does.

    Args:
        graph: The decoder with a cache that grows.
        config: The model's configuration.
        generation: Its generation configuration.

    Returns None for a cache that onnxruntime-genai does not support: it needs keys and values of one shape in every layer.
    """
    states = {match.groups(): value for value in graph.inputs if (match := _STATE.fullmatch(value.name or ""))}
    layers = {layer for layer, _ in states}
    shapes = {tuple(map(str, value.shape or ())) for value in states.values()}
    plain = {(layer, part) for layer in layers for part in ("key", "value")}
    if not states or set(states) != plain or len(shapes) != 1 or layers != set(map(str, range(len(layers)))):
        return None
    _, heads, past, size = next(iter(states.values())).shape or (None, None, None, None)
    if not isinstance(heads, int) or not isinstance(size, int) or isinstance(past, int):
        return None
    text = config.get_text_config()
    length = getattr(text, "max_position_embeddings", None) or 32768  # configurations without positions have no limit
    return {
        "model": {
            "type": "decoder",
            "bos_token_id": generation.bos_token_id,
            "eos_token_id": generation.eos_token_id,
            "pad_token_id": _pad(generation),
            "context_length": length,
            "vocab_size": text.vocab_size,
            "decoder": {
                "filename": "model.onnx",
                "head_size": size,
                "hidden_size": text.hidden_size,
                "num_attention_heads": text.num_attention_heads,
                "num_hidden_layers": len(layers),
                "num_key_value_heads": heads,
                "inputs": _inputs(graph),
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
                "session_options": {"provider_options": []},
            },
        },
        "search": {"do_sample": False, "max_length": length, "num_beams": 1, "past_present_share_buffer": False},
    }


def _inputs(graph: ir.Graph) -> dict[str, str]:
    names = {value.name or "" for value in graph.inputs}
    past = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    return {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in names} | past


def _pad(generation: Any) -> Any:
    ends = generation.eos_token_id
    first = ends[0] if isinstance(ends, list) else ends
    return generation.pad_token_id if generation.pad_token_id is not None else first
