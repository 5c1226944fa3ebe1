"""Tasks that do not exist or fit, and options and checkpoints that are unusable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers as hf

import onnxexp_transformers
from onnxexp import OptionError

from .encoder_configs import BASE

REMOTE = {"model_type": "mine", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForMaskedLM": "own.OwnModel"}}


def bert() -> Any:
    return hf.BertConfig(**BASE)


@pytest.mark.parametrize(
    ("source", "task", "options", "message"),
    [
        (
            bert,
            "fill-masks",
            {},
            r"no task 'fill-masks' \(did you mean 'fill-mask'\?\)\. There are: automatic-speech-recognition, ",
        ),
        (bert, "object-detection", {}, "BertConfig does not fit the task object-detection, .*; it fits .*fill-mask, text-"),
        (
            lambda: hf.BertModel(bert()),
            "fill-mask",
            {},
            "BertModel does not fit the task fill-mask, .*; it fits feature-extraction$",
        ),
        (lambda: hf.LlamaConfig(), "image-text-to-text", {}, "LlamaConfig does not fit .*; it fits text-generation, "),
        (bert, "fill-mask", {"freq": 1}, "no option freq; there are the sizes of its example: batch, sequence"),
        (hf.PatchTSTConfig, "feature-extraction", {}, "PatchTSTModel takes past_values; the tasks take input_ids, pixel_values"),
        (bert, "fill-mask", {"batch": 0}, "batch is 0; give a positive integer"),
        (bert, "fill-mask", {"cache": "past"}, "the task has no option cache"),
        (lambda: "nowhere", "fill-mask", {}, "nowhere does not exist: give a checkpoint folder"),
        (lambda: 3, "fill-mask", {}, "cannot export a int"),
    ],
)
def test_refusals(source: Callable[[], Any], task: str, options: dict[str, Any], message: str) -> None:
    """Each error has the fix."""
    with pytest.raises(OptionError, match=message):
        onnxexp_transformers.export(source(), task, task_options=options)


def test_remote_code_does_not_run(tmp_path: Path) -> None:
    """A checkpoint's Python file is not imported without trust_remote_code."""
    (tmp_path / "config.json").write_text(json.dumps(REMOTE))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for source in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(OptionError, match="runs only with trust_remote_code=True"):
            onnxexp_transformers.export(source, "fill-mask")
    assert not (tmp_path / "ran").exists()


def test_checkpoint_of_another_head(tmp_path: Path) -> None:
    """A checkpoint without the task's head is refused; it would get a random one."""
    hf.BertModel(bert()).save_pretrained(tmp_path)
    with pytest.raises(OptionError, match=r"lacks weights of BertForTokenClassification.*: classifier\.bias, classifier\.weight"):
        onnxexp_transformers.export(tmp_path, "token-classification")
