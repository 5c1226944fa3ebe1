"""The tasks: the classes of models that each needs, and the parts that it exports.

A task is a function `parts` in a module of this package. `Part` is one graph: a file of the exported folder.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp.commands import nearest

__all__ = ["TASKS", "Part", "Task", "task_of"]

TASKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text-generation": ("text_generation", ("AutoModelForCausalLM",)),
    "text2text-generation": ("encoder_decoder", ("AutoModelForSeq2SeqLM",)),
    "feature-extraction": ("feature_extraction", ("AutoModel",)),
    "fill-mask": ("one_graph", ("AutoModelForMaskedLM",)),
    "text-classification": ("one_graph", ("AutoModelForSequenceClassification",)),
    "token-classification": ("one_graph", ("AutoModelForTokenClassification",)),
    "question-answering": ("one_graph", ("AutoModelForQuestionAnswering",)),
    "image-classification": ("one_graph", ("AutoModelForImageClassification",)),
    "object-detection": ("one_graph", ("AutoModelForObjectDetection",)),
    "image-segmentation": (
        "image_segmentation",
        (
            "AutoModelForSemanticSegmentation",
            "AutoModelForUniversalSegmentation",
            "AutoModelForImageSegmentation",
            "AutoModelForMaskGeneration",
        ),
    ),
    "automatic-speech-recognition": ("speech_recognition", ("AutoModelForCTC", "AutoModelForSpeechSeq2Seq")),
    "zero-shot-image-classification": ("zero_shot", ("AutoModelForZeroShotImageClassification",)),
    "image-text-to-text": ("image_text_to_text", ("AutoModelForImageTextToText",)),
}
"""The module of each task, in this package, and transformers' classes that load its models."""


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A graph to export: ``model.onnx`` is the part "model".

    Attributes:
        name: The name of the file, without ``.onnx``.
        module: The module to export; its forward takes `inputs` by name.
        inputs: The example, by the names of the parameters.
        dynamic_shapes: The dynamic axes, in the form of `onnxexp.export`.
    """

    name: str
    module: torch.nn.Module
    inputs: Mapping[str, Any]
    dynamic_shapes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task: its name, the classes that load its models, and its `parts`.

    `parts(model, **options)` raises OptionError for a model that it does not fit, and for options that it does not have.
    """

    name: str
    auto_classes: Sequence[str]
    parts: Callable[..., Sequence[Part]]


def task_of(name: str) -> Task:
    """Return the task with a name.

    Raises OptionError if it does not exist.
    """
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}{nearest(name, TASKS)}. There are: {', '.join(sorted(TASKS))}.")
    module, auto_classes = TASKS[name]
    return Task(name, auto_classes, vars(importlib.import_module(f"{__name__}.{module}"))["parts"])
