"""GroupQueryAttention with a cache of a fixed size, which it writes in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import onnxexp
import onnxexp_transformers
from onnxexp_transformers.shared_buffers import SHARED_BUFFERS
from onnxexp_transformers.tasks import Part, task_of
from tests.ort.llama import LAYERS, llama, operators
from tests.transformers.causal_models import causal_model

ATTENTION = "com.microsoft::GroupQueryAttention"
SIZE = 24
STATIC = {"cache": "static", "max_length": SIZE}
MODEL = llama().model


@pytest.fixture(scope="module", params=[14, 20, 24])
def program(request: pytest.FixtureRequest) -> onnxexp.ONNXProgram:
    options = {"opset_version": request.param, "target": "onnxruntime-contrib", "debug": True}
    return onnxexp_transformers.export(MODEL, "text-generation", task_options=STATIC, **options).program


def part(batch: int, queries: int, length: int, padded: bool) -> Part:
    """Make the decoder with random keys and values of `length` tokens."""
    (made,) = task_of("text-generation").parts(MODEL, **STATIC, batch=batch, past=2, sequence=queries)
    mask = torch.zeros(batch, SIZE, dtype=torch.int64)
    for row in range(batch):
        mask[row, min(row + 1, length + queries - 1) * padded : length + queries] = 1
    made.inputs["attention_mask"].copy_(mask)
    made.inputs["position_ids"].copy_((mask.cumsum(1) - 1).clamp(min=0)[:, length : length + queries])
    for layer in made.inputs["past_key_values"].layers:
        layer.cumulative_length = torch.tensor(length)
        for tensor in (layer.keys, layer.values):
            tensor.zero_()[:, :, :length].normal_()
    return made


def test_every_layer_has_it_and_may_write_in_place(program: onnxexp.ONNXProgram) -> None:
    found = operators(program)
    assert found[ATTENTION] == found["If"] == LAYERS
    assert {"Softmax", "Attention", "ScatterElements", "TensorScatter"}.isdisjoint(node.op_type for node in program.model.graph)
    assert program.model.metadata_props[SHARED_BUFFERS].split() == [
        f"past_key_values.{layer}.{name}" for layer in range(LAYERS) for name in ("key", "value")
    ]


@pytest.mark.parametrize("size", [(1, 4, 0), (3, 5, 0), (2, 1, 0), (1, 1, 9), (3, 1, 7), (2, 3, 4), (1, 17, 7), (2, SIZE, 0)])
@pytest.mark.parametrize("padded", [False, True])
def test_values_are_those_of_eager(program: onnxexp.ONNXProgram, size: tuple[int, int, int], padded: bool) -> None:
    made = part(*size, padded=padded)
    with torch.no_grad():
        expected = made.module(**copy.deepcopy(dict(made.inputs)))
    results = program(**made.inputs)
    torch.testing.assert_close(results["logits"], expected["logits"], rtol=1e-4, atol=1e-4)
    for one, other in zip(results["past_key_values"].layers, expected["past_key_values"].layers, strict=True):
        torch.testing.assert_close((one.keys, one.values), (other.keys, other.values), rtol=1e-4, atol=1e-4)
        assert one.cumulative_length == other.cumulative_length


def test_greedy_tokens_of_a_padded_batch(program: onnxexp.ONNXProgram) -> None:
    ids = torch.tensor([[0, 0, 7, 9], [4, 5, 6, 8], [0, 3, 4, 5]])
    mask = (ids > 0).long()
    new = SIZE - ids.shape[1]
    expected = MODEL.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=0, eos_token_id=None)
    found = onnxexp_transformers.generate(program, {"input_ids": ids, "attention_mask": mask}, max_new_tokens=new)
    assert np.array_equal(found, expected.numpy())


@pytest.mark.parametrize(("name", "layers"), [("Gemma3Text", 3), ("GPT2", 2), ("Llama4Text", 4), ("DeepseekV2", 0), ("Bloom", 0)])
def test_greedy_tokens_of_other_architectures(name: str, layers: int) -> None:
    """Windows and chunks fit; other attention stays composed, and writes in place."""
    model, ids = causal_model(name), torch.tensor([[0, 0, 7, 9, 3], [4, 5, 6, 8, 2]])
    mask, count = (ids > 0).long(), SIZE - ids.shape[1]
    target = {"target": "onnxruntime-contrib"}
    program = onnxexp_transformers.export(model, "text-generation", task_options=STATIC, **target).program
    assert operators(program)[ATTENTION] == layers
    assert len(program.model.metadata_props[SHARED_BUFFERS].split()) == len(program.model.graph.outputs) - 2
    model.generation_config.eos_token_id = None
    expected = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0)
    found = onnxexp_transformers.generate(program, {"input_ids": ids, "attention_mask": mask}, max_new_tokens=count)
    assert np.array_equal(found, expected.numpy())


# One attention

PAST = torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
LENGTH = torch.tensor(5)


def new(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 4, count, 16), torch.randn(2, 2, count, 16), torch.randn(2, 2, count, 16)


def written(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, length: torch.Tensor, more: Any = None, start: int = 0
) -> Any:
    """Write into a cache, and attend to the tokens so far."""
    positions = torch.arange(k.shape[2]) + length
    keys, values = past[0].index_copy(2, positions, k), past[1].index_copy(2, positions, v)
    mask = torch.arange(start, 9 + start) <= positions[None, None, :, None]
    return attention(q, keys, values, mask if more is None else mask & more, enable_gqa=True), keys, values


def other_length(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, length: torch.Tensor) -> Any:
    positions = torch.arange(k.shape[2]) + length
    keys, values = past[0].index_copy(2, positions, k), past[1].index_copy(2, positions - 1, v)
    return attention(q, keys, values, torch.arange(9) <= positions[None, None, :, None], enable_gqa=True), keys, values


def given_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, length: torch.Tensor, mask: torch.Tensor) -> Any:
    positions = torch.arange(k.shape[2]) + length
    keys, values = past[0].index_copy(2, positions, k), past[1].index_copy(2, positions, v)
    return attention(q, keys, values, mask, enable_gqa=True), keys, values


def given_positions(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, positions: torch.Tensor) -> Any:
    keys, values = past[0].index_copy(2, positions, k), past[1].index_copy(2, positions, v)
    return attention(q, keys, values, torch.arange(9) <= positions[None, None, :, None], enable_gqa=True), keys, values


PADDED = torch.tensor([[True] * 9, [False] * 2 + [True] * 7])[:, None, None]
FITTING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one query": (written, (*new(1), PAST, LENGTH)),
    "padded": (written, (*new(1), PAST, LENGTH, PADDED)),
    "length of one axis": (written, (*new(1), PAST, LENGTH[None])),
    "several queries": (written, (*new(3), PAST, LENGTH, PADDED)),
    "first queries": (written, (*new(3), PAST, torch.tensor(0), PADDED)),
}
OTHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "any mask": (given_mask, (*new(1), PAST, LENGTH, PADDED)),
    "one key more": (lambda *args: written(*args, start=-1), (*new(1), PAST, LENGTH)),
    "any positions": (given_positions, (*new(2), PAST, torch.tensor([6, 4]))),
    "other length of values": (other_length, (*new(1), PAST, LENGTH)),
}


@pytest.mark.parametrize("opset", [20, 24])
@pytest.mark.parametrize("name", FITTING)
def test_what_fits(name: str, opset: int) -> None:
    fn, args = FITTING[name]
    past = (*(torch.cat((each[:, :, :5], torch.zeros(2, 2, 4, 16)), 2) * args[4].clamp(max=1) for each in args[3]),)
    program = onnxexp.export(fn, (*args[:3], past, *args[4:]), target="onnxruntime-contrib", opset_version=opset, debug=True)
    assert operators(program)[ATTENTION] == 1
    assert program.verify().ok


@pytest.mark.parametrize("opset", [20, 24])
@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_fit_stays_composed(name: str, opset: int) -> None:
    fn, args = OTHERS[name]
    program = onnxexp.export(fn, args, target="onnxruntime-contrib", opset_version=opset, debug=True)
    assert operators(program)[ATTENTION] == 0
    assert program.verify().ok


@pytest.mark.parametrize("opset", [20, 24])
def test_one_buffer_for_past_and_present(opset: int, tmp_path: Any) -> None:
    """The values behind the tokens stay, as in eager."""
    args = *new(1), PAST, LENGTH, PADDED
    file = tmp_path / "model.onnx"
    onnxexp.export(written, args, file, target="onnxruntime-contrib", opset_version=opset)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    flat = [tensor.clone() for tensor in (*args[:3], *PAST, *args[4:])]
    binding, names = session.io_binding(), [each.name for each in session.get_inputs()]
    buffers = dict(zip(names, (onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy()) for tensor in flat), strict=True))
    for name, value in buffers.items():
        binding.bind_ortvalue_input(name, value)
    outputs = [each.name for each in session.get_outputs()]
    binding.bind_output(outputs[0], "cpu")
    for output, name in zip(outputs[1:], names[3:5], strict=True):
        binding.bind_ortvalue_output(output, buffers[name])
    session.run_with_iobinding(binding)
    found = [torch.from_numpy(value.numpy()) for value in binding.get_outputs()]
    torch.testing.assert_close(tuple(found), written(*args), rtol=1e-4, atol=1e-5)
