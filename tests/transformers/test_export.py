"""`export`, the folders that it writes, and `onnxexp export hf:...`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, GPT2Config, ViTConfig

import onnxexp_transformers
from onnxexp import OptionError
from tests.core.commanding import run
from tests.transformers.causal_models import causal_model

BERT = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
Capsys = pytest.CaptureFixture[str]
FILES = {
    "README.md", "config.json", "genai_config.json", "generation_config.json", "model.onnx", "onnxexp.json", "tokenizer.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gpt"
    causal_model("GPT2").half().save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def export(source: Any, *args: Any, **options: Any) -> Any:
    return onnxexp_transformers.export(source, "text-generation", *args, **options)


def test_a_folder_by_the_command(checkpoint: Path, tmp_path: Path, capsys: Capsys) -> None:
    target = tmp_path / "out"
    ran = run(capsys, "export", f"hf:{checkpoint}", "--task", "text-generation", "-o", str(target), "--opset", "21", "--json")
    assert ran.status == 0, ran.err
    assert set(ran.document["files"]) == {file.name for file in target.iterdir()} == FILES
    model = onnx.load(target / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 21
    card = (target / "README.md").read_text("utf-8")
    assert (
        f"onnxexp export hf:{checkpoint} --task text-generation -o {target} --opset 21\n" in card
        and "| input | `past_key_values.0.key` | `float16[batch, 4, past, 8]` |" in card
    )
    assert json.loads((target / "onnxexp.json").read_text())["graphs"] == ["model.onnx"]
    assert json.loads((target / "config.json").read_text())["model_type"] == "gpt2"
    ids = torch.arange(3, 9).reshape(2, 3)
    assert onnxexp_transformers.generate(target, ids, max_new_tokens=4).shape == (2, 7)


def test_weights_keep_their_dtype_and_tied_ones_are_stored_once(checkpoint: Path) -> None:
    model = export(checkpoint).program.model
    stored = load_file(checkpoint / "model.safetensors")
    weights = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    floats = [weight for weight in weights if weight.dtype.is_floating_point()]
    assert {weight.dtype.name for weight in floats} == {"FLOAT16"}
    assert sum(weight.nbytes for weight in floats) <= sum(each.nbytes for each in stored.values()) + 1000


def test_masks_are_small() -> None:
    """Masks are boolean or of the scores' dtype, never with the context in two axes."""
    graph = export(causal_model("Llama").half()).program.model.graph
    for node in graph:
        for value in node.outputs:
            assert value.dtype is None or value.dtype.name != "DOUBLE"
            sizes = list(map(str, value.shape or ()))
            assert sizes.count("past + sequence") < 2


def bad_checkpoints(good: Path, folder: Path) -> Any:
    """Yield damaged copies: their files, and a pattern of the error."""
    config, weights = (good / "config.json").read_text(), (good / "model.safetensors").read_bytes()
    index = {"metadata": {}, "weight_map": {"transformer.wte.weight": "model-00001-of-00002.safetensors"}}
    custom = json.dumps({**json.loads(config), "model_type": "own", "auto_map": {"AutoConfig": "code.Config"}})
    yield {}, "has no config.json"
    yield {"config.json": config}, "has no weights"
    yield {"config.json": config, "model.safetensors.index.json": json.dumps(index)}, "refers to files that are missing: model-0"
    yield {"config.json": config, "model.safetensors": weights[:2000]}, "no complete safetensors file"
    yield (
        {"config.json": config.replace('"n_embd": 32', '"n_embd": 36'), "model.safetensors": weights},
        "cannot be loaded|another shape",
    )
    yield {"config.json": config.replace('"n_layer": 2', '"n_layer": 3'), "model.safetensors": weights}, "lacks weights"
    yield {"config.json": "{", "model.safetensors": weights}, "cannot be loaded"
    yield {"config.json": custom, "code.py": "raise SystemExit('it ran')", "model.safetensors": weights}, "trust_remote_code=True"


def test_bad_checkpoints(checkpoint: Path, tmp_path: Path) -> None:
    for number, (files, message) in enumerate(bad_checkpoints(checkpoint, tmp_path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(OptionError, match=message):
            export(folder)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (GPT2Config(), {"task": "text-generatoin"}, "there is no task 'text-generatoin'.*did you mean 'text-generation'"),
        (ViTConfig(), {}, "does not fit the task"),
        (
            BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32),
            {},
            "is no decoder, it reads later tokens",
        ),
        ("no/such/folder", {}, "does not exist"),
        (3, {}, "cannot export a int"),
    ],
)
def test_bad_sources(source: Any, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        onnxexp_transformers.export(source, options.get("task", "text-generation"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": "both"}, "there are: past, static"),
        ({"cache": "static"}, "give max_length"),
        ({"max_length": 8}, "and none with cache"),
    ],
)
def test_bad_options_of_the_task(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        export(causal_model("Llama"), task_options=options)


def test_a_static_cache_needs_attention_in_every_layer() -> None:
    with pytest.raises(OptionError, match="layers without attention"):
        export(causal_model("Mamba"), task_options={"cache": "static", "max_length": 8})
