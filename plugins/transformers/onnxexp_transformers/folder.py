"""Write an exported folder: graphs, configuration, tokenizer, model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import onnxexp
from onnxexp.commands import OutputFolder
from onnxexp_transformers.exported_parts import ExportedParts
from onnxexp_transformers.genai_config import genai_config
from onnxexp_transformers.loading import Loaded
from onnxexp_transformers.model_card import model_card

_CARD = "README.md"


def check_folder(folder: Path, task: str, parts: Collection[str], loaded: Loaded) -> None:
    """Check before an export that its folder can be written.

    Args:
        folder: The folder to write.
        task: The name of the task.
        parts: The names of the graphs.
        loaded: The model.

    Raises:
        OptionError: It is no folder that an export may replace, or files of the user are in the way.
        SerializeError: The system does not allow to write there.
    """
    names = {f"{part}{suffix}" for part in parts for suffix in (".onnx", ".onnx.data")} | {_CARD, "config.json"}
    names |= {"generation_config.json"} if loaded.model.can_generate() else set()
    names |= {"genai_config.json"} if task == "text-generation" else set()
    OutputFolder(folder).check(names | {file.name for file in loaded.tokenizer})


def write_folder(folder: Path, parts: ExportedParts, command: str | None) -> Path:
    """Write a folder, as `ExportedModel.save` describes."""
    folder, model = folder.absolute(), parts.loaded.model
    graphs = [f"{name}.onnx" for name in parts.programs]
    description = {"task": parts.task, "options": dict(parts.options), "graphs": graphs}
    with OutputFolder(folder).replaced(description) as hidden:
        place = Path(hidden)
        for name, program in parts.programs.items():
            program.save(place / f"{name}.onnx")
        for file in parts.loaded.tokenizer:
            shutil.copyfile(file, place / file.name)
        model.config.save_pretrained(place)
        if model.can_generate():
            model.generation_config.save_pretrained(place)
        if parts.task == "text-generation":
            _write_genai_config(place, parts.program, model)
        (place / _CARD).write_text(model_card(folder.name, parts, command), "utf-8", "backslashreplace")
    return folder


def _write_genai_config(place: Path, program: onnxexp.ONNXProgram, model: Any) -> None:
    """Write the configuration of onnxruntime-genai if it supports the model's cache."""
    described = genai_config(program.model.graph, model.config, model.generation_config)
    if described is not None:
        (place / "genai_config.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")
