"""The towers of a model of images and texts compute the whole model's embeddings."""

from __future__ import annotations

import types

import pytest
import torch
import transformers as hf

import onnxexp_transformers
from onnxexp import OptionError
from onnxexp_transformers.tasks.zero_shot import parts

from .architecture import Architecture, architectures
from .encoder_configs import BASE

ROWS = [row for row in architectures() if row.task == "zero-shot-image-classification"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=[] if row.quick else [pytest.mark.full]) for row in ROWS])
@pytest.mark.filterwarnings("ignore:the exported model is right only where:UserWarning")  # CLIPSeg
def test_the_embeddings_are_those_of_the_whole_model(row: Architecture) -> None:
    model = row.model()
    exported = onnxexp_transformers.export(model, row.task, task_options={"towers": True})
    assert list(exported.programs) == ["text", "vision"]
    for sizes in row.sizes:
        inputs = parts(model, **sizes)[0].inputs
        images = {name: value[:1].expand(5, -1, -1, -1) for name, value in inputs.items() if name.startswith("pixel")}
        texts = {name: value for name, value in inputs.items() if name not in images}
        with torch.no_grad():
            whole = model(**texts, **images)
        for name, given, expected in (("text", texts, whole.text_embeds), ("vision", images, whole.image_embeds)):
            actual = exported.programs[name](**given)
            torch.testing.assert_close(list(actual.values()), [expected], rtol=1e-3, atol=1e-5)


def test_a_task_without_towers() -> None:
    with pytest.raises(OptionError, match="the task has no option towers"):
        onnxexp_transformers.export(hf.BertConfig(**BASE), "fill-mask", task_options={"towers": True})


def test_a_model_whose_text_embeddings_depend_on_images(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in ROWS if row.quick)
    model = row.model()
    monkeypatch.setattr(model, "get_text_features", lambda **inputs: types.SimpleNamespace(pooler_output=torch.randn(2, 24)))
    with pytest.raises(OptionError, match="the text tower alone computes other text_embeds than the model; to fix this, "):
        parts(model, towers=True)
