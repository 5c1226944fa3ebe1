"""A checkpoint folder is data: it runs no code, and reaches no hub or other file."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.integrations import hub_kernels

from onnxexp import OptionError
from onnxexp_transformers.loading import Loaded, load, tokenizer_files
from onnxexp_transformers.tasks import task_of
from tests.transformers.causal_models import causal_model

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX's links, pipes and devices")
DETR = {"model_type": "detr", "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "good"
    causal_model("Llama").save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def checkpoint(good: Path, tmp_path: Path) -> Path:
    """Copy a checkpoint, for a test to damage it."""
    shutil.copytree(good, tmp_path / "good")
    return tmp_path / "good"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Simulate hub kernels and a network, and record the requests of a load."""
    asked: list[str] = []

    def kernel(name: str, *_: Any, **__: Any) -> Any:
        asked.append(f"kernel {name}")
        raise FileNotFoundError(name)

    def address(host: str, *_: Any, **__: Any) -> Any:
        asked.append(f"host {host}")
        raise OSError("no network")

    for module in (hub_kernels, transformers.modeling_utils):
        monkeypatch.setattr(module, "is_kernels_available", lambda: True)
    monkeypatch.setattr(hub_kernels, "get_kernel", kernel)
    monkeypatch.setattr(socket, "getaddrinfo", address)
    yield asked
    assert not asked


def changed(checkpoint: Path, **settings: Any) -> Path:
    """Change settings in a checkpoint's config.json."""
    file = checkpoint / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return checkpoint


def loaded(source: Path, task: str = "text-generation") -> Loaded:
    return load(source, task_of(task))


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
@pytest.mark.parametrize(
    "value",
    ["someone/kernel", "someone/kernel@main:attend", "kernels-community/flash-attn2", "paged|someone/kernel", {"": "a/b"}],
    ids=str,
)
def test_kernels_of_the_hub_are_refused(key: str, value: Any, checkpoint: Path) -> None:
    changed(checkpoint, **{key: value})
    for source in (checkpoint, checkpoint / "config.json"):
        with pytest.raises(
            OptionError, match=r"config.json selects code of the hub: attn_implementation = '.*to fix this, remove that"
        ):
            loaded(source)


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize(
    "settings",
    [
        {"attn_implementation": "flash_attention_2"},
        {"_attn_implementation": "flash_attention_3"},
        {"attn_implementation": "flex_attention"},
        {"attn_implementation": 5},
        {"experts_implementation": "sonicmoe"},
        {"fusion_config": {"patch_embeddings": True}},
    ],
    ids=str,
)
def test_pytorchs_own_implementation_takes_the_place_of_others(settings: dict[str, Any], checkpoint: Path) -> None:
    with pytest.warns(UserWarning, match=r"config.json selects .*: the export takes PyTorch's own implementation"):
        model = loaded(changed(checkpoint, **settings)).model
    assert model.config._attn_implementation in ("eager", "sdpa")
    assert model.config._experts_implementation in (None, "eager", "grouped_mm")


@pytest.mark.usefixtures("reached")
def test_a_kernel_for_a_part_of_the_model(tmp_path: Path) -> None:
    text = {"model_type": "llama", **SMALL, "vocab_size": 99, "_attn_implementation": "someone/kernel"}
    config = {"model_type": "llava", "text_config": text, "vision_config": {"model_type": "clip_vision_model", **SMALL}}
    for top in ({}, {"attn_implementation": {"text_config": "someone/kernel"}}):
        (tmp_path / "config.json").write_text(json.dumps({**config, **top}))
        try:
            model = loaded(tmp_path / "config.json", "image-text-to-text").model
        except OptionError as error:
            assert "selects code of the hub" in str(error)  # noqa: PT017 - transformers may drop the setting
        else:
            assert "someone/kernel" not in repr(vars(model.config.text_config))


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize(
    "settings",
    [
        {**DETR, "backbone": "someone/backbone", "use_timm_backbone": False},
        {**DETR, "backbone": "resnet50", "use_timm_backbone": False},
        {**DETR, "backbone": "resnet50", "backbone_kwargs": {"out_indices": [1]}},
        {**DETR, "backbone": "hf-hub:someone/backbone"},
        {**DETR, "backbone_config": {"model_type": "timm_backbone", "backbone": "hf-hub:someone/backbone"}},
        {"model_type": "timm_wrapper", "architecture": "hf-hub:someone/backbone"},
    ],
    ids=str,
)
def test_models_of_the_hub_are_not_asked_for(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(OptionError, match="names a model outside of the checkpoint: (backbone|architecture) = "):
        loaded(tmp_path / "config.json", "object-detection")


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "someone/repo--code.Config", "AutoModelForCausalLM": "code.Model"}}),
        ("config.json", {"_name_or_path": "someone/other", "_commit_hash": "main"}),
        ("config.json", {"name_or_path": "someone/other"}),
        ("generation_config.json", {"custom_generate": "someone/generate"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}),
        ("processor_config.json", {"auto_map": {"AutoProcessor": "someone/repo--code.Processor"}}),
        ("adapter_config.json", {"base_model_name_or_path": "someone/base", "peft_type": "LORA"}),
        ("chat_template.jinja", "{{ ''.__class__.__mro__ }}"),
        ("code.py", "raise SystemExit('it ran')"),
    ],
    ids=str,
)
def test_a_folder_runs_no_code_and_asks_no_hub(name: str, content: Any, checkpoint: Path) -> None:
    if name == "config.json":
        changed(checkpoint, **content)
    else:
        (checkpoint / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert type(loaded(checkpoint).model) is transformers.LlamaForCausalLM
    assert "code" not in sys.modules or "good" not in str(sys.modules["code"].__file__)


class Evil:
    """Unpickles by writing a file."""

    def __reduce__(self) -> Any:
        return exec, ("open('ran', 'w')",)


@pytest.mark.usefixtures("reached")
def test_pickled_weights_run_no_code(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = dict(loaded(checkpoint).model.state_dict())
    (checkpoint / "model.safetensors").unlink()
    torch.save(weights, checkpoint / "pytorch_model.bin")
    assert isinstance(loaded(checkpoint).model, transformers.LlamaForCausalLM)
    torch.save({**weights, "more": Evil()}, checkpoint / "pytorch_model.bin")
    with pytest.raises(
        OptionError,
        match="take a checkpoint with safetensors: the pickled weights contain more than tensors, which could run code",
    ):
        loaded(checkpoint)
    (checkpoint / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(OptionError, match="cannot be loaded"):
        loaded(checkpoint)
    assert not (tmp_path / "ran").exists()


def test_an_index_refers_to_files_of_its_folder(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    for suffix in ("safetensors", "bin"):
        weights.unlink(missing_ok=True)
        index = checkpoint / f"{'model' if suffix == 'safetensors' else 'pytorch_model'}.{suffix}.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": f"../other/model.{suffix}", "b": "/etc/passwd"}}))
        with pytest.raises(OptionError, match=r"refers to files outside of its folder: \.\./other/model.*, /etc/passwd"):
            loaded(checkpoint)
        index.unlink()


@posix
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "model.safetensors", "adapter_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_read(name: str, kind: str, checkpoint: Path) -> None:
    (checkpoint / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(checkpoint / name)
    else:
        (checkpoint / name).symlink_to("/dev/zero")
    with pytest.raises(OptionError, match=f"{name} is no regular file, and may have no end"):
        loaded(checkpoint)


@posix
@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("/etc/hostname", "it is a link that leads out of the checkpoint"),
        ("../private.txt", "it is a link that leads out of the checkpoint"),
        ("/dev/zero", "it is a link that leads out of the checkpoint"),
        ("nothing", "it is a link to nothing"),
        ("vocab.txt", "it is a link to nothing"),
        ("pipe", "it is no regular file"),
        ("huge", "it has 1,099,511,627,776 bytes"),
    ],
)
def test_links_of_a_tokenizer(link: str, problem: str, checkpoint: Path) -> None:
    (checkpoint.parent / "private.txt").write_text("secret")
    os.mkfifo(checkpoint / "pipe")
    with open(checkpoint / "huge", "wb") as file:
        file.truncate(1 << 40)
    (checkpoint / "vocab.txt").symlink_to(link)
    with pytest.warns(
        UserWarning, match=f"'vocab.txt' of the checkpoint is not copied: {problem}; to fix this, copy it yourself"
    ):
        assert [file.name for file in tokenizer_files(checkpoint)] == ["tokenizer.json"]


@posix
def test_links_inside_of_a_checkpoint(checkpoint: Path) -> None:
    (checkpoint / "vocab.txt").symlink_to("tokenizer.json")
    (checkpoint.parent / "link").symlink_to("good")
    for folder in (checkpoint, checkpoint.parent / "link"):
        assert [file.name for file in tokenizer_files(folder)] == ["tokenizer.json", "vocab.txt"]


@posix
@pytest.mark.parametrize("store", ["models--someone--model/blobs", "blobs/ab"], ids=["of the model", "of the cache"])
def test_a_snapshot_in_the_cache_of_the_hub(store: str, good: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / store, tmp_path / "models--someone--model" / "snapshots" / "0123abcd"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    for number, file in enumerate(sorted(good.iterdir())):
        shutil.copyfile(file, blobs / str(number))
        (snapshot / file.name).symlink_to(os.path.relpath(blobs / str(number), snapshot))
    found = loaded(snapshot)
    assert [file.name for file in found.tokenizer] == ["tokenizer.json"] and found.model.num_parameters() > 0
    (snapshot / "vocab.txt").symlink_to("/etc/hostname")
    with pytest.warns(UserWarning, match="'vocab.txt' of the checkpoint is not copied"):
        assert [file.name for file in tokenizer_files(snapshot)] == ["tokenizer.json"]
