"""An exported folder is replaced as a whole, and the user's files in it stay."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from transformers import BertConfig

import onnxexp_transformers
from onnxexp import OptionError, SerializeError
from onnxexp_transformers.export_model import ExportedModel
from tests.core.commanding import run
from tests.faults.interrupted import INTERRUPTS, KILL, interrupted

BERT = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
Capsys = pytest.CaptureFixture[str]


def exported(layers: int) -> ExportedModel:
    config = BertConfig(**{**BERT, "num_hidden_layers": layers})
    return onnxexp_transformers.export(config, "fill-mask", opset_version=20)


@pytest.fixture(scope="module")
def small() -> ExportedModel:
    return exported(1)


@pytest.fixture(scope="module")
def large() -> ExportedModel:
    return exported(2)


def layers(folder: Path) -> int | str:
    """Return the number of layers, or a text on what is wrong.

    Graph and configuration must agree, and the user's file must be there.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
        graph = onnx.load(folder / "model.onnx").graph
        card, users = (folder / "README.md").read_text("utf-8"), (folder / "notes.txt").read_text()
    except FileNotFoundError as error:
        return f"a file is missing: {error.filename}"
    found = len({name for name in (each.name for each in graph.initializer) if "attention.self.query.weight" in name})
    right = found == config["num_hidden_layers"] and "## model.onnx" in card and users == "mine"
    return found if right else f"{found} layers in the graph, {config['num_hidden_layers']} in config.json, notes {users!r}"


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
@pytest.mark.parametrize("how", [KILL, *(pytest.param(how, marks=pytest.mark.full) for how in INTERRUPTS if how != KILL)])
def test_an_interrupt_leaves_the_old_or_the_new_folder(how: str, small: Any, large: Any, tmp_path: Path) -> None:
    step, states = 0, []
    while True:
        folder = tmp_path / "out"
        small.save(folder)
        (folder / "notes.txt").write_text("mine")
        again = interrupted(lambda: large.save(tmp_path / "out"), step, how)
        states.append(layers(folder))
        small.save(tmp_path / "other")
        assert {*os.listdir(tmp_path)} == {"out", "other"}, f"at change {step}"
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        if not again:
            break
        step += 1
    assert {*states} == {1, 2}, states
    assert step > 25


def test_an_error_leaves_the_old_folder(small: Any, large: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.save(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")

    def fails(*args: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onnxexp_transformers.folder.model_card", fails)
    with pytest.raises(SerializeError, match=r"No space left on device\. Free some space.*What was there before is unharmed"):
        large.save(tmp_path / "out")
    assert layers(tmp_path / "out") == 1 and os.listdir(tmp_path) == ["out"]


def test_files_of_the_user_stay(small: Any, large: Any, tmp_path: Path) -> None:
    folder = small.save(tmp_path / "out")
    (folder / "notes.txt").write_text("mine")
    (folder / "results").mkdir()
    (folder / "results" / "table.csv").write_text("mine")
    large.save(folder)
    assert layers(folder) == 2 and (folder / "results" / "table.csv").read_text() == "mine"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["README.md", "config.json", "model.onnx"])
def test_a_changed_file_stops_an_export_before_the_capture(
    name: str, small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small.save(tmp_path / "out")
    content = (folder / name).read_bytes() + b"\n"
    (folder / name).write_bytes(content)

    def captured(*args: Any, **options: Any) -> Any:
        raise AssertionError("the model was captured")

    monkeypatch.setattr("onnxexp.export", captured)
    with pytest.raises(
        OptionError, match=f"yours, or were changed since the last export: {name}; to fix this, move or delete them"
    ):
        onnxexp_transformers.export(BertConfig(**BERT), "fill-mask", folder)
    assert (folder / name).read_bytes() == content
    (folder / name).rename(tmp_path / "kept")
    monkeypatch.undo()
    onnxexp_transformers.export(BertConfig(**BERT), "fill-mask", folder, opset_version=20)
    (folder / "notes.txt").write_text("mine")
    assert layers(folder) == 1 and (tmp_path / "kept").read_bytes() == content


def test_a_bad_folder_is_refused_before_the_model_is_loaded(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "mine.txt").write_text("")
    for folder, message in [
        (tmp_path, "has files of its own, and is no earlier export"),
        (tmp_path / "mine.txt", "is a file: give a folder"),
        (tmp_path / "no" / "out", "does not exist: create it"),
    ]:
        with pytest.raises(OptionError, match=message):
            onnxexp_transformers.export("no/such/checkpoint", "fill-mask", folder)
        ran = run(capsys, "export", "hf:no/such/checkpoint", "--task", "fill-mask", "-o", str(folder))
        assert ran.status == 2 and message in ran.err and "Traceback" not in ran.err
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_a_folder_of_an_older_onnxexp(small: Any, tmp_path: Path) -> None:
    folder = small.save(tmp_path / "out")
    manifest = json.loads((folder / "onnxexp.json").read_text())
    (folder / "onnxexp.json").write_text(json.dumps({name: manifest[name] for name in ("task", "options", "graphs")}))
    with pytest.raises(OptionError, match=r"has an onnxexp.json without a list of the files"):
        small.save(folder)


def test_a_link_to_a_private_file_is_not_exported(small: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    small.loaded.model.save_pretrained(source)
    (tmp_path / "private").write_text("secret")
    (source / "vocab.txt").symlink_to("../private")
    with pytest.warns(UserWarning, match="'vocab.txt' of the checkpoint is not copied: it is a link that leads out"):
        onnxexp_transformers.export(source, "fill-mask", tmp_path / "out", opset_version=20)
    assert "vocab.txt" not in os.listdir(tmp_path / "out")
