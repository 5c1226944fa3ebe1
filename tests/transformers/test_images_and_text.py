"""The parts of a model of images and text generate the tokens of `model.generate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from onnxexp_transformers.tasks.image_text_to_text import grid_of, parts

from .architecture import Architecture, architectures
from .sessions import Session, as_past

STEPS = 32


@dataclasses.dataclass(frozen=True)
class Habits:
    """The inputs that an architecture's processor and `generate` pass to it.

    Attributes:
        position: The position of the first token.
        types: The type of a text's tokens, of image tokens and of generated ones; None passes no types.
    """

    position: int = 0
    types: tuple[int, int, int] | None = None


HABITS = {
    "LLaVA": Habits(),
    "PaliGemma": Habits(1, (0, 0, 1)),
    "Gemma 3": Habits(0, (0, 1, 0)),
    "BLIP-2": Habits(),
    "Qwen2-VL": Habits(),
}
Positions: TypeAlias = Callable[[int, int], Any]
"""The positions of the tokens from one place up to another one, as the text part takes them."""


def rows() -> list[object]:
    """List the architectures with known habits."""
    found = [row for row in architectures() if row.task == "image-text-to-text" and row.name in HABITS]
    return [pytest.param(row, id=row.id, marks=[] if row.quick else [pytest.mark.full]) for row in found]


def generate(folder: Path, ids: Any, images: Any, token: int, types: Any, positions: Positions) -> np.ndarray[Any, Any]:
    """Choose the likeliest tokens by the graphs of a folder, int64[batch, STEPS]."""
    vision, embeddings, text = (Session(folder / f"{name}.onnx") for name in ("vision", "embeddings", "text"))
    features = np.concatenate([vision(image)["image_features"] for image in images])
    feeds: dict[str, Any] = text.empty_cache(len(ids)) | {"input_ids": ids, "image_features": features}
    words, marks, generated = types or (0, 0, 0)
    feeds["token_type_ids"] = np.where(ids == token, marks, words)
    past, tokens = 0, []
    for _ in range(STEPS):
        length = past + feeds["input_ids"].shape[1]
        feeds["attention_mask"] = np.ones((len(ids), length), np.int64)
        feeds["position_ids"] = positions(past, length)
        results = text(feeds | embeddings(feeds))
        tokens.append(results["logits"][:, -1].argmax(-1)[:, None])
        feeds |= as_past(results) | {"input_ids": tokens[-1], "image_features": features[:0]}
        feeds["token_type_ids"], past = np.full_like(tokens[-1], generated), length
    return np.concatenate(tokens, axis=1)


def image_positions(model: Any, given: dict[str, torch.Tensor]) -> Positions:
    """Return Qwen2-VL's positions of the prompt, and of the tokens behind it.

    A position has a time, a height and a width.
    """
    prompt, behind = model.model.get_rope_index(**{name: given[name] for name in given if name != "pixel_values"})

    def positions(past: int, length: int) -> Any:
        return (torch.arange(past, length) + behind).expand(3, -1, -1).numpy() if past else prompt.numpy()

    return positions


@pytest.mark.parametrize("row", rows())
def test_generates_the_same_tokens(row: Architecture, tmp_path: Path) -> None:
    """The parts generate 32 greedy tokens of two texts, each with an image."""
    model, habits = row.model(), HABITS[row.name]
    row.export(model).save(tmp_path / "exported")
    vision = parts(model, batch=2)[0]
    patches = "image_position_ids" in vision.inputs
    pixels = vision.inputs["pixel_values"] if patches else vision.inputs["pixel_values"][:1]
    images = [{**vision.inputs, "pixel_values": each} for each in (pixels, -pixels)]
    with torch.no_grad():
        count = len(vision.module(**images[0])["image_features"])
    token = model.config.image_token_id
    ids = torch.tensor([[5, *[token] * count, 17, 23, 8], [9, 31, *[token] * count, 12, 40]])
    given = {"input_ids": ids, "pixel_values": torch.cat([pixels, -pixels]), "attention_mask": torch.ones_like(ids)}
    if habits.types is not None:
        given["token_type_ids"] = torch.where(ids == token, habits.types[1], habits.types[0])
    if patches:
        given["image_grid_thw"] = grid_of(vision.inputs["image_position_ids"]).expand(2, -1)
        given["mm_token_type_ids"] = (ids == token).int()
    for each in (model, getattr(model, "language_model", model)):  # BLIP-2 generates with its language model
        each.generation_config = GenerationConfig(pad_token_id=0, max_new_tokens=STEPS, do_sample=False)
    expected = model.generate(**given)[:, ids.shape[1] :]

    def counted(past: int, length: int) -> Any:
        return np.arange(past, length)[None].repeat(len(ids), 0) + habits.position

    arrays = [{name: value.numpy() for name, value in image.items()} for image in images]
    found = generate(
        tmp_path / "exported", ids.numpy(), arrays, token, habits.types, image_positions(model, given) if patches else counted
    )
    assert found.tolist() == expected.tolist()
