"""Static caches that are written in place: which may be, and by `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnxexp_transformers
from onnxexp_transformers import TextGenerator
from onnxexp_transformers.shared_buffers import SHARED_BUFFERS, shareable
from tests.transformers.causal_models import causal_model

HEAD = '<ir_version: 11, opset_import: ["" : 24, "com.microsoft" : 1]>'
TYPE = "float[batch, 2, 8, 4]"


def graph_of(body: str, inputs: str = f"{TYPE} past_key_values.0.key", outputs: str = f"{TYPE} present.0.key") -> ir.Graph:
    text = f"{HEAD} graph ({inputs}, float[batch, 2, 1, 4] new, int64[batch] at, bool pick) => ({outputs}) {{ {body} }}"
    return ir.from_onnx_text(text.replace("past_key_values.0.", "past_key_values_0_").replace("present.0.", "present_0_")).graph


def named(graph: ir.Graph) -> ir.Graph:
    """Rename inputs and outputs to names with dots, which ONNX's text form lacks."""
    for value in (*graph.inputs, *graph.outputs):
        value.name = (value.name or "").replace("values_0_", "values.0.").replace("present_0_", "present.0.")
    return graph


WRITE = "present.0.key = TensorScatter <axis = 2> (past_key_values.0.key, new, at)"
BRANCH = "g () => (float[batch, 2, 8, 4] {0}) {{ {0} = TensorScatter <axis = 2> (past_key_values.0.key, {1}, at) }}"
CHOICE = (
    "twice = Add(new, new) present.0.key = If (pick) <then_branch = "
    + BRANCH.format("a", "new")
    + ", else_branch = "
    + BRANCH.format("b", "twice")
    + ">"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (WRITE, True),
        (f"{WRITE} shape = Shape(past_key_values.0.key)", True),
        (CHOICE, True),
        (f"{WRITE} sum = ReduceSum(past_key_values.0.key)", False),
        ("present.0.key = Neg(past_key_values.0.key)", False),
        ("both = TensorScatter <axis = 2> (past_key_values.0.key, new, at) present.0.key = Neg(both)", False),
        (f"{WRITE} other = TensorScatter <axis = 2> (past_key_values.0.key, new, at)", False),
        (CHOICE.replace("a = TensorScatter", "c = TensorScatter").replace("{ c", "{ a = Neg(c) c"), False),
    ],
)
def test_what_may_be_written_in_place(body: str, expected: bool) -> None:
    assert shareable(named(graph_of(body))) == (["past_key_values.0.key"] if expected else [])


def test_a_cache_that_grows_may_not() -> None:
    grows = "present.0.key = Concat <axis = 2> (past_key_values.0.key, new)"
    pair = "float[batch, 2, past, 4] past_key_values.0.key", "float[batch, 2, total, 4] present.0.key"
    assert shareable(named(graph_of(grows, *pair))) == []


def test_attention_writes_keys_and_values_together() -> None:
    attention = (
        "q = Reshape(new, at) out, present.0.key, {} = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> "
        "(q, q, q, past_key_values.0.key, past_key_values.0.value, at, at)"
    )
    pair = f"{TYPE} past_key_values.0.key, {TYPE} past_key_values.0.value", f"{TYPE} present.0.key, {TYPE} present.0.value"
    assert len(shareable(named(graph_of(attention.format("present.0.value"), *pair)))) == 2
    copied = attention.format("value") + " present.0.value = Neg(value)"
    assert shareable(named(graph_of(copied, *pair))) == []


@pytest.mark.parametrize("options", [{}, {"opset_version": 24}, {"target": "onnxruntime-contrib"}], ids=str)
def test_a_stream_keeps_one_buffer(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"cache": "static", "max_length": 512}  # large enough that freed memory is given back
    model = causal_model("Llama")
    exported = onnxexp_transformers.export(model, "text-generation", tmp_path / "out", task_options=task, **options)
    names = exported.program.model.metadata_props[SHARED_BUFFERS].split()
    assert names == [value.name for value in exported.program.model.graph.inputs if "key_values." in value.name][:-1]
    seen: list[Any] = []
    run = onnxruntime.IOBinding.get_outputs

    def recorded(binding: Any) -> Any:
        seen.append([value.data_ptr() for value in run(binding)[1 : 1 + len(names)]])
        return run(binding)

    monkeypatch.setattr(onnxruntime.IOBinding, "get_outputs", recorded)
    ids = np.array([[5, 6, 7], [8, 9, 10]])
    found = TextGenerator(tmp_path / "out").generate(ids, max_new_tokens=12)
    assert len(seen) == 12 and all(step == seen[0] for step in seen) and len(set(seen[0])) == len(names)
    monkeypatch.undo()
    grown = onnxexp_transformers.export(model, "text-generation").program
    assert np.array_equal(found, onnxexp_transformers.generate(grown, ids, max_new_tokens=12))
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = 1
    assert np.array_equal(found, TextGenerator(tmp_path / "out", session).generate(ids, max_new_tokens=12))
