"""Causal language models with caches, against eager and `model.generate`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from transformers import DynamicCache
from transformers.cache_utils import LinearAttentionLayer

import onnxexp_transformers
from onnxexp import ONNXProgram, OptionError
from onnxexp_transformers.cache_nodes import cache_argument
from tests.transformers.causal_models import CAUSAL, causal_model

QUICK = ("GPT2", "Gemma2", "Llama", "Mamba")
WITHOUT_STATIC = ("Bamba", "FalconH1", "Jamba", "Lfm2", "Mamba", "Mamba2", "Qwen3Next", "RecurrentGemma", "Rwkv")
NEW = 32


def rows(names: Any) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in names]


def prompts(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw random tokens; every second text is padded on the left."""
    generator = torch.Generator().manual_seed(batch * length)
    ids, mask = torch.randint(3, 99, (batch, length), generator=generator), torch.ones(batch, length, dtype=torch.int64)
    mask[::2, : length // 3] = 0
    return ids * mask, mask


def positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)


def eager_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, prompt: int) -> torch.Tensor:
    """Compute all logits: of the prompt in one call, of the others one by one."""
    accepted = inspect.signature(model.forward).parameters
    cache = DynamicCache(config=model.config)
    recurrent = all(type(layer) is LinearAttentionLayer for layer in cache.layers)
    given = {**cache_argument(model.forward, cache), "use_cache": True}
    found = []
    for start, end in [(0, prompt), *((each, each + 1) for each in range(prompt, ids.shape[1]))]:
        call = {**given, "input_ids": ids[:, start:end]}
        if not (recurrent and start):
            call["attention_mask"] = mask[:, :end]
        if "position_ids" in accepted:
            call["position_ids"] = positions(mask)[:, start:end]
        with torch.no_grad():
            found.append(model(**call).logits)
    return torch.cat(found, dim=1)


def onnx_logits(program: ONNXProgram, ids: torch.Tensor, mask: torch.Tensor, steps: list[tuple[int, int]]) -> torch.Tensor:
    """Compute all logits, with each call's cache in the next; the first is empty."""
    state, found = empty_state(program, len(ids)), []
    for start, end in steps:
        call = {"input_ids": ids[:, start:end], "attention_mask": mask[:, :end], **state}
        names = {slot.name for slot in program.signature.inputs}
        if "position_ids" in names:
            call["position_ids"] = positions(mask)[:, start:end]
        if program.model.graph.inputs[1].shape[1] == 1:  # a model without attention
            call["attention_mask"] = mask[:, start:end]
        before = [leaf.clone() for leaf in pytree.tree_leaves(state)]
        result = program(**call)
        assert all(map(torch.equal, before, pytree.tree_leaves(state)))
        found.append(result.pop("logits"))
        state = result
    return torch.cat(found, dim=1)


def empty_state(program: ONNXProgram, batch: int) -> Any:
    example = {name: value for name, value in program.example[1].items() if name.startswith("past_")}
    names = [slot.name for slot in program.signature.inputs if slot.name.startswith("past_")]
    leaves, structure = pytree.tree_flatten(example)
    grows = [name.endswith((".key", ".value")) for name in names]
    zeros = [
        leaf.new_zeros(batch, *((leaf.shape[1], 0, leaf.shape[3]) if growing else leaf.shape[1:]))
        for leaf, growing in zip(leaves, grows, strict=True)
    ]
    return pytree.tree_unflatten(zeros, structure)


def check_logits(model: Any, program: ONNXProgram, batch: int, prompt: int, new: int) -> None:
    ids, mask = prompts(batch, prompt)
    ids, mask = torch.cat([ids, prompts(batch, new)[0].clamp(min=3)], 1), torch.nn.functional.pad(mask, (0, new), value=1)
    expected = eager_logits(model, ids, mask, prompt)
    one_by_one = program.model.graph.inputs[0].shape[1] == 1
    steps = [(0, prompt), (prompt, prompt + new)]
    if one_by_one:
        steps = [(each, each + 1) for each in range(prompt + new)]
    got = onnx_logits(program, ids, mask, steps)
    real = mask.bool()
    torch.testing.assert_close(got[real], expected[real], rtol=2e-3, atol=2e-4)


def greedy(model: Any, program: ONNXProgram) -> None:
    ids, mask = prompts(3, 9)
    model.generation_config.eos_token_id = None
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(input_ids=ids, attention_mask=mask, **options)
    got = onnxexp_transformers.generate(program, {"input_ids": ids, "attention_mask": mask}, max_new_tokens=NEW)
    assert torch.equal(torch.from_numpy(got), expected)


def test_texts_of_rwkv_are_computed_as_if_each_were_alone() -> None:
    model = causal_model("Rwkv")
    program = onnxexp_transformers.export(model, "text-generation").program
    ids, mask = prompts(3, 11)
    logits = onnx_logits(program, ids, mask, [(each, each + 1) for each in range(11)])
    new = onnxexp_transformers.generate(program, {"input_ids": ids, "attention_mask": mask}, max_new_tokens=NEW)[:, 11:]
    model.generation_config.eos_token_id = None
    for row, real in enumerate(mask.bool()):
        text = ids[row : row + 1, real]
        with torch.no_grad():
            torch.testing.assert_close(logits[row : row + 1, real], model(input_ids=text).logits, rtol=2e-3, atol=2e-4)
        alone = model.generate(input_ids=text, max_new_tokens=NEW, do_sample=False, pad_token_id=0)
        assert torch.equal(torch.from_numpy(new[row]), alone[0, text.shape[1] :])
    with torch.no_grad():  # why transformers' own results for several texts are no reference
        assert model(ids[:, :1], state=model(ids, use_cache=True).state, use_cache=True).logits.shape == (3, 3, 99)


def test_the_state_of_rwkv_is_never_static() -> None:
    with pytest.raises(OptionError, match="has a state that never grows: give cache='past'"):
        onnxexp_transformers.export(causal_model("Rwkv"), "text-generation", task_options={"cache": "static", "max_length": 8})


@pytest.mark.parametrize("name", rows(name for name in CAUSAL if name != "Rwkv"))
def test_a_cache_that_grows(name: str) -> None:
    model = causal_model(name)
    program = onnxexp_transformers.export(model, "text-generation").program
    outputs = {str(value.name) for value in program.model.graph.outputs}
    inputs = {str(value.name) for value in program.model.graph.inputs}
    assert outputs == {"logits", *(f"present.{each.partition('.')[2]}" for each in inputs if each.startswith("past_"))}
    check_logits(model, program, batch=1, prompt=1, new=1)
    check_logits(model, program, batch=3, prompt=11, new=5)
    greedy(model, program)


@pytest.mark.parametrize("name", rows(name for name in CAUSAL if name not in WITHOUT_STATIC))
def test_a_static_cache(name: str) -> None:
    model = causal_model(name)
    options = {"cache": "static", "max_length": 9 + NEW}
    greedy(model, onnxexp_transformers.export(model, "text-generation", task_options=options).program)
