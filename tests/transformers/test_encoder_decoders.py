"""The parts of an encoder-decoder generate the tokens of `model.generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import GenerationConfig, GenerationMixin

from onnxexp_transformers.tasks import task_of
from onnxexp_transformers.tasks.encoder_decoder import parts

from .architecture import Architecture, architectures

STEPS = 32
SIZES = {"batch": 3, "sequence": 15}  # not those of the export


def rows() -> list[object]:
    """The encoder-decoders that export."""
    return [
        pytest.param(row, id=row.id, marks=[] if row.quick else [pytest.mark.full])
        for row in architectures()
        if not row.fails and task_of(row.task).parts is not None and _is_pair(row)
    ]


def _is_pair(row: Architecture) -> bool:
    texts = row.task in ("text2text-generation", "automatic-speech-recognition")
    return texts and bool(row.config().is_encoder_decoder)


class Session:
    """A graph in ONNX Runtime, called with arrays by name."""

    def __init__(self, file: Path) -> None:
        self._session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.inputs = {each.name: each.shape for each in self._session.get_inputs()}

    def __call__(self, feeds: dict[str, Any]) -> dict[str, Any]:
        names = [each.name for each in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, {name: feeds[name] for name in self.inputs}), strict=True))


def generate(folder: Path, source: dict[str, torch.Tensor], start: int) -> np.ndarray[Any, Any]:
    """Choose the most probable tokens with the graphs of a folder, int64[batch, STEPS]."""
    encoder, decoder = Session(folder / "encoder.onnx"), Session(folder / "decoder.onnx")
    feeds = {name: value.numpy() for name, value in source.items()}
    encoded = encoder(feeds)
    feeds |= {name.replace("present.", "past_key_values."): value for name, value in encoded.items()}
    feeds |= {"encoder_attention_mask": feeds.get("attention_mask"), "encoder_hidden_states": encoded["last_hidden_state"]}
    batch = len(next(iter(source.values())))
    for name, shape in decoder.inputs.items():
        if ".decoder." in name:
            feeds[name] = np.zeros([batch if size == "batch" else 0 if size == "past" else size for size in shape], np.float32)
    feeds["input_ids"] = np.full((batch, 1), start)
    tokens = []
    for _ in range(STEPS):
        results = decoder(feeds)
        feeds["input_ids"] = results["logits"][:, -1].argmax(-1)[:, None]
        feeds |= {name.replace("present.", "past_key_values."): value for name, value in results.items()}
        tokens.append(feeds["input_ids"])
    return np.concatenate(tokens, axis=1)


@pytest.mark.parametrize("row", rows())
def test_generates_the_same_tokens(row: Architecture, tmp_path: Path) -> None:
    """32 greedy tokens, at sizes that the export did not see."""
    model = row.model()
    row.export(model).save(tmp_path / "exported")
    source = dict(parts(model, **{**row.example, **SIZES})[0].inputs)
    start = 5
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start, pad_token_id=0, max_new_tokens=STEPS, do_sample=False
    )
    expected = GenerationMixin.generate(model, **source)
    assert generate(tmp_path / "exported", source, start).tolist() == expected[:, 1:].tolist()
