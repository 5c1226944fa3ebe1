"""Llama-like models of 1 and 7 billion float16 parameters, and their checkpoints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from torch import nn

import onnxexp

from .pretrained import Text

_SHARD = 2 << 30
"""Bytes of a checkpoint's file."""
_CHUNK = 32 << 20


@dataclasses.dataclass(frozen=True)
class LargeCase:
    """A large model.

    Attributes:
        width, inner, layers, heads, groups: The sizes of the Llama.
        hollow: Whether the parameters are on the meta device, and the weights in a checkpoint.
        limit: The largest accepted growth of memory, as a share of the weights.
        peers: The tools of `exporters` that export it too.
    """

    width: int
    inner: int
    layers: int
    heads: int
    groups: int
    hollow: bool
    limit: float
    peers: tuple[str, ...] = ()

    def make(self) -> nn.Module:
        """Create the model, without data if it is hollow."""
        config = hf.LlamaConfig(
            vocab_size=32_000, hidden_size=self.width, intermediate_size=self.inner, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.groups, use_cache=False,
        )  # fmt: skip
        if not self.hollow:
            return self._made(config)
        with onnxexp.meta_parameters():
            return self._made(config)

    def tiny(self) -> nn.Module:
        """Create a model of one small layer, with data."""
        return dataclasses.replace(self, width=64, inner=64, layers=1, heads=4, groups=2, hollow=False).make()

    def _made(self, config: hf.LlamaConfig) -> nn.Module:
        return Text(hf.AutoModelForCausalLM.from_config(config, dtype=torch.float16), ("logits",)).eval()

    @property
    def weights(self) -> int:
        """Bytes of the parameters."""
        return sum(parameter.nbytes for parameter in dataclasses.replace(self, hollow=True).make().parameters())


LARGE = {
    "llama-1b": LargeCase(2048, 5632, 22, 32, 4, hollow=False, limit=0.15, peers=("dynamo",)),
    "llama-7b": LargeCase(4096, 11_008, 32, 32, 32, hollow=True, limit=0.1),
}


def write_checkpoint(state: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write random finite float16 numbers for a state dict, in files with an index.

    A few MB of them are in memory at a time.
    """
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, tensor in state.items():
        if sum(each.nbytes for each in shards[-1].values()) > _SHARD:
            shards.append({})
        shards[-1][name] = tensor
    files = {f"model-{number:05}-of-{len(shards):05}.safetensors": shard for number, shard in enumerate(shards, 1)}
    random = np.random.default_rng(0)
    for file, shard in files.items():
        _write_shard(folder / file, shard, random)
    index = {"metadata": {}, "weight_map": {name: file for file, shard in files.items() for name in shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_shard(path: Path, shard: Mapping[str, torch.Tensor], random: np.random.Generator) -> None:
    """Write one file in the format of safetensors.

    The file has the length of a header, the header, and the contents.
    """
    header, end = {}, 0
    for name, tensor in shard.items():
        assert tensor.dtype == torch.float16, name
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, end, _CHUNK):
            bits = random.integers(0, 1 << 16, min(_CHUNK, end - start) // 2, dtype=np.uint16)
            out.write((bits & 0xBFFF).data)  # without the highest bit of the exponent, each number is finite
