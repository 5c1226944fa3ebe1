"""Changes to a model of transformers for the duration of an export."""

from __future__ import annotations

import types

import pytest
import torch
import transformers as hf

import onnxexp
from onnxexp_transformers.export_model import all_experts, export_switch

from .encoder_decoder_configs import LED, T5

SWITCH = """
import torch

def scaled(x):
    return x * 2 if torch.jit.is_tracing() else x * 3
"""


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_modules_of_transformers_see_a_trace(capture: str) -> None:
    theirs, others = types.ModuleType("transformers.models.some"), types.ModuleType("some")
    for module in (theirs, others):
        exec(SWITCH, vars(module))
    x = torch.ones(2)
    program = onnxexp.export(lambda x: (theirs.scaled(x), others.scaled(x)), (x,), capture=capture)
    first, second = program(x)
    assert first.tolist() == [2, 2] and second.tolist() == ([3, 3] if capture == "export" else [2, 2])
    assert theirs.scaled(x).tolist() == [3, 3]


def test_the_switch_for_onnx_is_reset() -> None:
    models = (hf.LEDModel(hf.LEDConfig(**LED)), hf.LongformerModel(hf.LongformerConfig(hidden_size=24, num_hidden_layers=1)))
    before = [dict(vars(model.config)) for model in models]
    for model in models:
        with export_switch(model):
            assert model.config.onnx_export is True
    assert [vars(model.config) for model in models] == before


def test_loops_over_experts_are_those_of_the_model_afterwards() -> None:
    config = hf.SwitchTransformersConfig(**T5, num_experts=4, num_sparse_encoder_layers=1)
    model = hf.SwitchTransformersForConditionalGeneration(config)
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.ModuleDict)]
    with all_experts(model):
        assert layers and all("forward" in vars(layer) for layer in layers)
    assert not any("forward" in vars(layer) for layer in layers)
