"""The parts of an encoder-decoder generate the tokens of `model.generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, GenerationMixin

from onnxexp_transformers.tasks.encoder_decoder import parts

from .architecture import Architecture, architectures
from .sessions import Session, as_past

STEPS, START = 32, 5
SIZES = {"batch": 3, "sequence": 15}  # not those of the export


def rows() -> list[object]:
    """List the encoder-decoders that export."""
    tasks = ("text2text-generation", "automatic-speech-recognition")
    found = [row for row in architectures() if row.task in tasks and not row.fails and row.config().is_encoder_decoder]
    return [pytest.param(row, id=row.id, marks=[] if row.quick else [pytest.mark.full]) for row in found]


def generate(folder: Path, source: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
    """Choose the likeliest tokens by the graphs of a folder, int64[batch, STEPS]."""
    encoder, decoder = Session(folder / "encoder.onnx"), Session(folder / "decoder.onnx")
    feeds = {name: value.numpy() for name, value in source.items()}
    encoded = encoder(feeds)
    batch = len(encoded["last_hidden_state"])
    feeds |= {"encoder_attention_mask": feeds.get("attention_mask"), "encoder_hidden_states": encoded["last_hidden_state"]}
    feeds |= as_past(encoded) | decoder.empty_cache(batch) | {"input_ids": np.full((batch, 1), START)}
    tokens = []
    for _ in range(STEPS):
        results = decoder(feeds)
        feeds |= as_past(results) | {"input_ids": results["logits"][:, -1].argmax(-1)[:, None]}
        tokens.append(feeds["input_ids"])
    return np.concatenate(tokens, axis=1)


@pytest.mark.parametrize("row", rows())
def test_generates_the_same_tokens(row: Architecture, tmp_path: Path) -> None:
    """The parts generate 32 greedy tokens at sizes that the export did not see."""
    model = row.model()
    row.export(model).save(tmp_path / "exported")
    source = dict(parts(model, **{**row.example, **SIZES})[0].inputs)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=START, pad_token_id=0, max_new_tokens=STEPS, do_sample=False
    )
    expected = GenerationMixin.generate(model, **source)
    assert generate(tmp_path / "exported", source).tolist() == expected[:, 1:].tolist()
