"""Caches of transformers as inputs and outputs of any export."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils import _pytree as pytree
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    EncoderDecoderCache,
    LlamaForCausalLM,
    StaticCache,
)

import onnxexp
from onnxexp import CaptureError, OnnxExporterError, OptionError
from onnxexp_transformers.cache_nodes import cache_argument, cache_parameter, named_tensors, register_caches
from tests.transformers.causal_models import causal_model

IDS = torch.arange(8).reshape(2, 4) + 5


def filled(model: Any, cache: Any) -> Any:
    with torch.no_grad():
        model(IDS, **cache_argument(model.forward, cache), use_cache=True)
    return cache


def returned(model: Any, result: Any) -> Any:
    """Return the cache of a result, whose field has the name of the parameter."""
    return result[cache_parameter(model.forward)]


def snapshot(cache: Any) -> Any:
    register_caches()
    leaves, structure = pytree.tree_flatten(cache)
    return [(id(leaf), leaf.clone()) for leaf in leaves], str(structure)


def same(before: Any, after: Any) -> bool:
    return before[1] == after[1] and all(
        one[0] == other[0] and torch.equal(one[1], other[1]) for one, other in zip(before[0], after[0], strict=True)
    )


def names(values: Any) -> list[str]:
    return [value.name for value in values]


@pytest.mark.parametrize("name", ["past_key_values", "of the parameter"])
def test_a_dynamic_cache(name: str) -> None:
    """Axes are described under the name in the graph, or under transformers' own name."""
    model = causal_model("Llama")
    cache = filled(model, DynamicCache())
    before, layers = snapshot(cache), list(cache.layers)
    described = name if name == "past_key_values" else cache_parameter(model.forward)
    program = onnxexp.export(
        model,
        kwargs={"input_ids": IDS[:, :3], **cache_argument(model.forward, cache)},
        dynamic_shapes={"input_ids": {0: "batch", 1: "sequence"}, f"{described}.*": {0: "batch", 2: "past"}},
    )
    keys = [f"{layer}.{part}" for layer in range(2) for part in ("key", "value")]
    assert names(program.model.graph.inputs) == ["input_ids", *(f"past_key_values.{key}" for key in keys)]
    assert names(program.model.graph.outputs) == ["logits", *(f"present.{key}" for key in keys)]
    assert str(program.model.graph.outputs[1].shape) == "[batch,2,past + sequence,8]"
    program.verify(inputs="sizes")
    result = returned(model, program(input_ids=IDS[:1, :2], **cache_argument(model.forward, filled_for(model, 1))))
    assert isinstance(result, DynamicCache) and result.get_seq_length() == 9
    assert same(before, snapshot(cache)) and cache.layers == layers and cache.get_seq_length() == 4


def filled_for(model: Any, batch: int) -> DynamicCache:
    cache = DynamicCache()
    with torch.no_grad():
        model(torch.arange(7).repeat(batch, 1), **cache_argument(model.forward, cache))
    return cache


def test_the_older_name_of_the_parameter() -> None:
    """transformers 5.24 still takes it; the field of the result has the newer name."""
    model = causal_model("Llama")
    program = onnxexp.export(model, kwargs={"input_ids": IDS[:, :3], "past_key_values": filled(model, DynamicCache())})
    assert "past_key_values.1.value" in names(program.model.graph.inputs)
    assert names(program.model.graph.outputs)[-1] == "present.1.value"
    program.verify()


class Decoder(torch.nn.Module):
    """A model with parameters of every name."""

    def forward(self, cache: Any, mine: Any, past: Any) -> Any:
        return {"cache": cache, "mine": mine, "past": [past], "sum": sum(leaf.sum() for leaf in pytree.tree_leaves(past))}


def test_other_names_of_parameters_stay() -> None:
    register_caches()
    caches = [DynamicCache([(torch.ones(1, 2, 3, 4) * each, torch.ones(1, 2, 3, 4))]) for each in range(3)]
    program = onnxexp.export(Decoder(), tuple(caches))
    assert names(program.model.graph.inputs)[::2] == ["past_key_values.0.key", "mine.0.key", "past.0.key"]
    assert names(program.model.graph.outputs)[::2] == ["past_key_values.0.key", "mine.0.key", "past.0.key", "sum"]


@pytest.mark.parametrize("architecture", ["XLM", "Flaubert"])
def test_a_dict_is_no_cache_of_transformers(architecture: str) -> None:
    config = getattr(transformers, f"{architecture}Config")(n_layers=1, n_heads=2, emb_dim=16, vocab_size=50)
    model = getattr(transformers, f"{architecture}WithLMHeadModel")(config)
    assert cache_parameter(model.forward) is None
    with pytest.raises(OptionError, match="forward has no parameter for a cache; to fix this"):
        cache_argument(model.forward, DynamicCache())


def test_a_cache_with_windows() -> None:
    """Windows have no dynamic length, since layers branch on full ones."""
    model = causal_model("Gemma3Text")
    cache = filled(model, DynamicCache(config=model.config))
    given = {"input_ids": IDS[:, :1], **cache_argument(model.forward, cache)}
    with pytest.raises(CaptureError, match="was asked to be dynamic, but the model fixes it to 4"):
        onnxexp.export(model, kwargs=given, dynamic_shapes={"past_key_values.*": {2: "past"}}, capture="export")
    program = onnxexp.export(model, kwargs=given)
    program.verify()
    full = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.arange(18).reshape(2, 9), **cache_argument(model.forward, full))
    with pytest.raises(OnnxExporterError, match="not built like the example"):
        program(input_ids=IDS[:, :1], **cache_argument(model.forward, full))


def test_a_static_cache() -> None:
    model = causal_model("Llama")
    cache = filled(model, StaticCache(config=model.config, max_cache_len=16))
    before = snapshot(cache)
    assert [*named_tensors(cache)] == ["0.key", "0.value", "1.key", "1.value", "length"]
    with pytest.warns(UserWarning, match="the forward writes into"):
        program = onnxexp.export(
            model,
            kwargs={"input_ids": IDS[:, :1], **cache_argument(model.forward, cache)},
            dynamic_shapes={"input_ids": {1: "sequence"}},
        )
    program.verify(inputs="sizes")
    assert same(before, snapshot(cache))
    result = returned(model, program(input_ids=IDS[:, :3], **cache_argument(model.forward, cache)))
    assert int(named_tensors(result)["length"]) == 7
    assert {int(layer.cumulative_length) for layer in result.layers} == {7}


def test_the_cache_of_an_encoder_and_a_decoder() -> None:
    config = BartConfig(
        vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BartForConditionalGeneration(config).eval()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with torch.no_grad():
        encoded = model.model.encoder(IDS)
        model(encoder_outputs=encoded, decoder_input_ids=IDS[:, :2], **cache_argument(model.forward, cache))
    before = snapshot(cache)
    program = onnxexp.export(
        model,
        kwargs={"encoder_outputs": (encoded[0],), "decoder_input_ids": IDS[:, :1], **cache_argument(model.forward, cache)},
        dynamic_shapes={"past_key_values.*.decoder.*": {2: "past"}},
    )
    found = names(program.model.graph.inputs)
    assert [f"past_key_values.1.{part}.{kind}" for part in ("decoder", "encoder") for kind in ("key", "value")] == [
        name for name in found if name.startswith("past_key_values.1.")
    ]
    assert "present.1.decoder.value" in names(program.model.graph.outputs)
    program.verify()
    assert same(before, snapshot(cache))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("Mamba", {"0.conv_state", "0.recurrent_state", "1.conv_state", "1.recurrent_state"}),
        ("Jamba", {"0.conv_state", "0.recurrent_state", "1.key", "1.value", "2.conv_state"}),
    ],
)
def test_states_of_other_layers(name: str, keys: set[str]) -> None:
    model = causal_model(name)
    cache = filled(model, DynamicCache(config=model.config))
    before = snapshot(cache)
    assert keys <= named_tensors(cache).keys()
    with pytest.warns(UserWarning, match="the forward writes into"):
        program = onnxexp.export(model, kwargs={"input_ids": IDS[:, :1], **cache_argument(model.forward, cache)})
    assert {f"past_key_values.{key}" for key in keys} <= {*names(program.model.graph.inputs)}
    assert {f"present.{key}" for key in keys} <= {*names(program.model.graph.outputs)}
    program.verify()
    assert same(before, snapshot(cache))


def test_every_class_survives_pytree() -> None:
    """Each class is flattened and built again, also with leaves that are no tensors."""
    model = causal_model("Gemma3Text")
    caches = [filled(model, DynamicCache(config=model.config)), filled(model, StaticCache(config=model.config, max_cache_len=9))]
    for cache in [*caches, EncoderDecoderCache(caches[0], DynamicCache()), DynamicCache()]:
        leaves, structure = pytree.tree_flatten(cache)
        assert pytree.tree_structure(pytree.tree_unflatten(leaves, structure)) == structure
        numbered = pytree.tree_unflatten(list(range(len(leaves))), structure)
        assert pytree.tree_leaves(numbered) == list(range(len(leaves))) and pytree.tree_structure(numbered) == structure
        assert pytree.treespec_loads(pytree.treespec_dumps(structure)) == structure
        copy = pytree.tree_map_only(torch.Tensor, torch.clone, cache)
        assert type(copy) is type(cache) and copy.get_seq_length() == cache.get_seq_length()


def test_registering_in_many_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert not [each for each in threads.map(lambda _: register_caches(), range(64)) if each is not None]


def run(code: str) -> str:
    """Run code in a process of its own, where nothing is registered yet."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


MODEL = """
import torch, onnxexp
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.integrations.executorch import register_dynamic_cache_export_support

config = LlamaConfig(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
model, ids, cache = LlamaForCausalLM(config).eval(), torch.arange(8).reshape(2, 4), DynamicCache()
given = (ids, None, None, cache)
with torch.no_grad():
    model(*given)

def export():
    return onnxexp.export(model, given)
"""


def test_the_plugin_loads_without_transformers() -> None:
    code = """
    import sys, torch, onnxexp, onnxexp_transformers
    onnxexp.export(torch.nn.ReLU(), (torch.ones(2),))
    print("transformers" in sys.modules)
    """
    assert run(code).split() == ["False"]


def test_our_registration_before_that_of_transformers() -> None:
    code = MODEL + "export(); register_dynamic_cache_export_support(); print(export().model.graph.inputs[1].name)"
    assert run(code).split() == ["past_key_values.0.key"]


def test_the_registration_of_transformers_before_ours() -> None:
    """The earlier registration stays, and the task's own caches have our names."""
    code = MODEL + textwrap.dedent("""
    register_dynamic_cache_export_support()
    first = torch.export.export(model, given)
    program = export()
    program.verify()
    print(program.model.graph.inputs[1].name.partition(".")[2])
    import onnxexp_transformers
    print(onnxexp_transformers.export(model, "text-generation").program.model.graph.inputs[3].name)
    first.module()(*given)
    """)
    assert run(code).split() == ["key_cache.0", "past_key_values.0.key"]


@pytest.mark.parametrize("argument", [True, False])
def test_without_the_plugin(argument: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    code = MODEL + textwrap.dedent(f"""
    from onnxexp._plugins import discovery
    installed = discovery.discover
    discovery.discover = lambda group="onnxexp.plugins": tuple(
        each for each in installed(group) if each.name != "transformers"
    )
    try:
        onnxexp.export(model, given if {argument} else (ids,))
    except onnxexp.CaptureError as error:
        print(error)
    """)
    what = "argument" if argument else "output"
    name = cache_parameter(LlamaForCausalLM.forward)
    first, fix = run(code).strip().splitlines()
    assert first.startswith(f"the {what} {name} is a DynamicCache, whose tensors would become constants; to fix this, ")
    assert fix == "`pip install onnxexp-plugin-transformers` brings the classes of transformers::"


DECODER = """
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

def decoder():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    model, ids, cache = LlamaForCausalLM(config).eval(), torch.arange(10).reshape(2, 5), DynamicCache()
    with torch.no_grad():
        model(ids[:, :3], None, None, cache)
    return model, (ids, torch.ones(2, 8).long(), None, cache)
"""


def test_the_command_compares_a_file_with_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison also runs at other sizes; the mask has the size past + sequence."""
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(DECODER)
    exported = """
    import onnxexp, models
    axes = {"attention_mask": {0: "batch", 1: "past + sequence"}, "past_key_values.*": {0: "batch", 2: "past"}}
    onnxexp.export(*models.decoder(), "model.onnx", dynamic_shapes={"input_ids": {0: "batch", 1: "sequence"}, **axes})
    """
    run(exported)
    sizes = ["--sizes", "batch=3", "--sizes", "past=7,sequence=2"]
    command = ["verify", "model.onnx", "--against", "models.py:decoder", *sizes, "--json"]
    document = json.loads(run(f"from onnxexp._cli import main\nmain({command})"))
    assert [each["ok"] for each in document["runs"]] == [True] * 3, document
    assert [each["name"] for each in document["runs"][2]["outputs"]][1:3] == ["present.0.key", "present.0.value"]


def test_an_attribute_that_no_program_can_have() -> None:
    cache = DynamicCache()
    vars(cache)["hook"] = print
    with pytest.raises((TypeError, CaptureError), match="hook is a builtin_function_or_method"):
        pytree.tree_flatten(cache)
