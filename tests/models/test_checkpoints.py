"""Checkpoints that transformers saved: mapped weights, and the real model's file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

import onnxexp

IDS = torch.tensor([[5, 9, 2, 33], [7, 1, 40, 3]])
SEQUENCES = {0: "batch", 1: "sequence"}
SMALL = {"vocab_size": 64, "use_cache": False}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}

MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, **SIZES, num_key_value_heads=2)),
    "llama, tied": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, **SIZES, tie_word_embeddings=True)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**SMALL, n_embd=32, n_layer=2, n_head=4)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL, **SIZES)),
    "t5": lambda: hf.T5EncoderModel(hf.T5Config(**SMALL, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**SMALL, **SIZES, num_key_value_heads=2, head_dim=8)),
}


def made(name: str, dtype: torch.dtype) -> Any:
    """Build a model in evaluation mode, in a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return MODELS[name]().eval()
    finally:
        torch.set_default_dtype(before)


def exported(model: Any, folder: Path, weights: Any = None) -> dict[str, bytes]:
    """Export a model, and read the files of the export."""
    folder.mkdir()
    onnxexp.export(
        model, (), folder / "model.onnx", kwargs={"input_ids": IDS}, dynamic_shapes={"input_ids": SEQUENCES},
        capture="export", external_data=True, weights=weights,
    )  # fmt: skip
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def in_files(tensor: torch.Tensor, folder: Path) -> bool:
    """Return whether a tensor is in a mapped file of the folder."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= tensor.data_ptr() < end:
            return str(folder) in line
    return False


FULL = [pytest.param(dtype, marks=pytest.mark.full) for dtype in (torch.float32, torch.bfloat16)]


@pytest.mark.parametrize("dtype", [torch.float16, *FULL], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_file_of_the_real_model(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = made(name, dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    checkpoint = tmp_path / "checkpoint"
    model.save_pretrained(checkpoint, max_shard_size="20kB")
    real = exported(model, tmp_path / "real")
    with onnxexp.meta_parameters():
        hollow = made(name, dtype)
    assert exported(hollow, tmp_path / "hollow", checkpoint) == real

    loaded = type(model).from_pretrained(checkpoint, dtype="auto")
    kept = [each for each in loaded.parameters() if each.dtype == dtype]  # transformers keeps parts of T5 in float32
    matrices = [each for each in kept if each.dim() > 1]  # it pads a bias of BERT
    assert matrices and (sys.platform != "linux" or all(in_files(each, checkpoint) for each in matrices))
    if len(kept) == len(list(loaded.parameters())):
        assert exported(loaded, tmp_path / "loaded") == real


class Varied(nn.Module):
    """A module with parameters in many containers, and a module with two names."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = nn.ParameterList([torch.randn(3), torch.randn(3)])
        self.named = nn.ParameterDict({"shift": torch.randn(3)})
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        self.spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
        self.recurrent = nn.GRU(3, 3, batch_first=True)
        self.conv = nn.Conv1d(3, 3, 1)
        self.same = nn.ModuleList([self.conv])
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.pair[0] + self.pair[1] - self.named["shift"]
        x = self.attention(x, x, x)[0]
        x = self.spectral(self.normed(x)) + self.recurrent(x)[0]
        return self.norm(self.same[0](self.conv(x.transpose(1, 2))))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("construct", [onnxexp.meta_parameters, lambda: torch.device("meta")], ids=["meta_parameters", "meta"])
def test_parameters_of_every_kind(construct: Callable[[], Any], capture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Varied().eval(), torch.randn(2, 5, 3)
    with construct():
        hollow = Varied().eval()
    shapes = ({0: "batch", 1: "length"},)
    onnxexp.export(model, (x,), tmp_path / "real.onnx", capture=capture, dynamic_shapes=shapes)
    program = onnxexp.export(
        hollow, (x,), tmp_path / "hollow.onnx", capture=capture, dynamic_shapes=shapes, weights=model.state_dict()
    )
    assert (tmp_path / "real.onnx").read_bytes() == (tmp_path / "hollow.onnx").read_bytes()
    assert all(each.is_meta for each in hollow.parameters()) and program.verify_sizes().ok
