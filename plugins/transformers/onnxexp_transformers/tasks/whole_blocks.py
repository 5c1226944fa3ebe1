"""Pad texts to whole blocks for an encoder that cuts them into blocks.

Such an encoder branches in Python on whether a text fills its blocks, so that the graph would be right only for texts that do,
or only for texts that do not. A padded text always fills its blocks. Results of tokens that the mask leaves out may differ from
transformers': LongT5's depend on its padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import pad

from onnxexp_transformers.tasks.example_inputs import setting

_SETTINGS = {"attention_window": 0, "block_size": 0, "local_radius": 1}
"""The settings with the length of a block, and what to add: LED; PEGASUS-X and BigBird-Pegasus; LongT5."""


def block_of(model: Any, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the length of an encoder's blocks, or 1 where padding is no fix.

    Padding is a fix if the encoder computes the same with it for the tokens that the mask leaves in. `inputs` are those of the
    encoder, with a mask.
    """
    names = [name for name in _SETTINGS if setting(model.config, name) is not None]
    if not names or not {"input_ids", "attention_mask"} <= inputs.keys():
        return 1
    size = setting(model.config, names[0])
    block = (size if isinstance(size, int) else max(size)) + _SETTINGS[names[0]]
    length = inputs["input_ids"].shape[1]
    text = {name: tensor[:, 1:] for name, tensor in inputs.items()} if length % block == 0 else inputs
    real = text["attention_mask"].bool()
    with torch.no_grad():
        expected, padded = (run_on_blocks(model, text, each).last_hidden_state[real] for each in (1, block))
    return block if torch.allclose(expected, padded, rtol=1e-3, atol=1e-4) else 1


def run_on_blocks(model: Any, inputs: Mapping[str, Any], block: int) -> Any:
    """Run the encoder on texts padded to whole blocks, and cut off the padding."""
    encoder = model.get_encoder()
    if block == 1:
        return encoder(**inputs, return_dict=True)
    length = inputs["input_ids"].shape[1]
    more = block * ((length + block - 1) // block) - length
    fill = {"input_ids": model.config.pad_token_id or 0}
    padded = {name: pad(tensor, (0, more), value=fill.get(name, 0)) for name, tensor in inputs.items()}
    encoded = encoder(**padded, return_dict=True)
    encoded.last_hidden_state = encoded.last_hidden_state[:, :length]
    return encoded
