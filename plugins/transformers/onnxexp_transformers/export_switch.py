"""transformers' own switch for exports to ONNX, ``config.onnx_export``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedConfig

_NAME = "onnx_export"


@contextlib.contextmanager
def export_switch(model: torch.nn.Module) -> Iterator[None]:
    """Set ``onnx_export`` in the configurations of a model inside the `with`.

    Models with windows, as Longformer and LED, then cut them by `unfold`. Otherwise they compute strides of memory, which a
    trace has as the example's numbers. Most configurations have no such field, which is removed again.
    """
    found = {id(config): vars(config) for module in model.modules() if isinstance(config := _config(module), PreTrainedConfig)}
    before = [(fields, fields.get(_NAME)) for fields in found.values()]
    for fields, _ in before:
        fields[_NAME] = True
    try:
        yield
    finally:
        for fields, value in before:
            fields.pop(_NAME)
            if value is not None:
                fields[_NAME] = value


def _config(module: torch.nn.Module) -> Any:
    return vars(module).get("config")
