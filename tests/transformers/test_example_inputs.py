"""Inputs and dynamic axes that follow from a model and its configuration."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from transformers.modeling_outputs import ImageClassifierOutput

import onnxexp_transformers
from onnxexp_transformers.tasks import task_of

from .architecture import Architecture, architectures

ROWS = {row.id: row for row in architectures()}
TEXT = {0: "batch", 1: "sequence"}


@pytest.mark.parametrize(
    ("row", "part", "axes"),
    [
        ("BERT:fill-mask", "model", {"input_ids": TEXT, "attention_mask": TEXT, "token_type_ids": TEXT}),
        ("XLM-RoBERTa:token-classification", "model", {"input_ids": TEXT, "attention_mask": TEXT}),  # it has one token type
        (
            "LayoutLM:token-classification",
            "model",
            dict.fromkeys(["input_ids", "attention_mask", "token_type_ids", "bbox"], TEXT),
        ),
        ("ViT:image-classification", "model", {"pixel_values": {0: "batch"}}),  # a table of positions
        ("ConvNeXt:image-classification", "model", {"pixel_values": {0: "batch", 2: "height", 3: "width"}}),
        (
            "DETR:object-detection",
            "model",
            {"pixel_values": {0: "batch", 2: "height", 3: "width"}, "pixel_mask": {0: "batch", 1: "height", 2: "width"}},
        ),
        (
            "wav2vec 2.0:automatic-speech-recognition",
            "model",
            {"input_values": {0: "batch", 1: "samples"}, "attention_mask": {0: "batch", 1: "samples"}},
        ),
        ("Whisper:automatic-speech-recognition", "encoder", {"input_features": {0: "batch"}}),  # one length, and no mask
        ("LLaVA:image-text-to-text", "vision", {"pixel_values": {}}),  # one image
        ("BLIP-2:image-text-to-text", "vision", {"pixel_values": {0: "images"}}),
        ("SAM:image-segmentation", "vision", {"pixel_values": {0: "images"}}),
    ],
)
def test_inputs_and_axes(row: str, part: str, axes: dict[str, Any]) -> None:
    """The inputs that the model reads, and the axes that it leaves free."""
    found = {each.name: each for each in task_of(ROWS[row].task).parts(ROWS[row].model())}[part]
    assert found.dynamic_shapes == axes
    assert found.inputs.keys() == axes.keys()


class FixesSize(hf.PreTrainedModel):
    """A model that takes images of any size, and puts the size into Python's numbers."""

    config_class = hf.ViTConfig
    main_input_name = "pixel_values"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.post_init()

    def forward(self, pixel_values: torch.Tensor, return_dict: bool = True) -> Any:
        return ImageClassifierOutput(logits=pixel_values.mean((2, 3)) * self.scale * sum(range(pixel_values.shape[2])))


def test_an_image_size_that_the_model_fixes_is_fixed_with_a_warning() -> None:
    """The graph has the example's size, which can be chosen, and a warning names it."""
    model = FixesSize(hf.ViTConfig(image_size=32)).eval()
    with pytest.warns(UserWarning, match=r"model\.onnx takes images of 32 × 48 pixels only; for another size, give task_"):
        exported = onnxexp_transformers.export(model, "image-classification", task_options={"width": 48}, capture="export")
    assert [str(size) for size in exported.program.model.graph.inputs[0].shape] == ["batch", "3", "32", "48"]
    exported.program.verify(kwargs={"pixel_values": torch.randn(5, 3, 32, 48)})


def test_a_row_has_a_name_of_its_own() -> None:
    """The table and the tests name rows by architecture and task."""
    ids = [row.id for row in architectures()]
    assert len(ids) == len(set(ids))
    assert all(isinstance(row, Architecture) for row in architectures())
